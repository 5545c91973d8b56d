"""Lends a server on the same host the memory that inputs are in, so that their bytes need not be sent.

Owns when the server is asked, and the rule that inputs are sent as usual if it refuses. It is asked beside the
executions, none of which waits for its answer: their bytes are sent until it comes.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import grpc

from inferwire.errors import LOST, InferwireError
from inferwire.transport import rpc
from inferwire.transport.address import Address
from inferwire.transport.executions import WireBytes
from inferwire.transport.lent_memory import LentMemory, memory_behind, new_memory
from inferwire.transport.link import Link
from inferwire.transport.releases import Released, Releases
from inferwire_proto.inferwire.v1.tensors_pb2 import LendMemoryRequest

LEAST_BYTES = 1 << 18
"""The size from which naming an input is better than sending it. Executions with smaller ones travel stacked when they
pile up, which costs less than each by itself."""

MOST_BYTES = 256 << 20
"""The largest input that servers take, unless they are started to take larger ones."""

_LOG = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Loan:
    """Whether a session reads one piece of memory in place.

    Attributes:
        session_id: The session of the executions that read it.
        is_asked: Whether the server was asked to take it.
        is_granted: Whether it agreed.
    """

    session_id: str
    is_asked: bool = False
    is_granted: bool = False


class Lending:
    """Memory lent to the server at one address. Threads may race; `_forget`, which finalizers call, takes no lock."""

    def __init__(self, address: Address, releases: Releases) -> None:
        self._address = address
        self._releases = releases
        self._loans: dict[int, _Loan] = {}
        self._refused_by = ""

    def __repr__(self) -> str:
        granted = sum(loan.is_granted for loan in tuple(self._loans.values()))
        return f"<Lending to {self._address}: {granted} of {len(self._loans)} granted>"

    def memory(self, byte_size: int) -> LentMemory | None:
        """Make memory to lend; None if its size is unfit, the server is not on this host, or it has refused some."""
        is_worth_it = LEAST_BYTES <= byte_size <= MOST_BYTES and self._address.is_local and not self._refused_by
        return new_memory(byte_size) if is_worth_it else None

    def names_or_ask(self, link: Link, inputs: Sequence[WireBytes]) -> tuple[int, ...] | None:
        """Give the id of the lent memory that each input is in, 0 for one whose bytes are sent; None if all are.

        Memory that is used for the second time is offered to the server, whose answer counts for later executions.
        """
        session_id = link.session_id
        if session_id == self._refused_by:
            return None
        names = tuple([self._name_or_ask(link, session_id, data) for data in inputs])
        return names if any(names) else None

    def _name_or_ask(self, link: Link, session_id: str, data: WireBytes) -> int:
        memory = memory_behind(data)
        if memory is None or memory.byte_size > link.stream.most_bytes:
            return 0
        loan = self._loans.get(memory.id)
        if loan is None:
            self._releases.start()
            weakref.finalize(memory, self._forget, memory.id).atexit = False
        if loan is None or loan.session_id != session_id:
            # Much memory is used only once. Memory that is used again is worth a call.
            self._loans[memory.id] = _Loan(session_id)
            return 0
        if not loan.is_asked:
            loan.is_asked = True
            self._ask(link, memory, loan)
        return memory.id if loan.is_granted else 0

    def _ask(self, link: Link, memory: LentMemory, loan: _Loan) -> None:
        request = LendMemoryRequest(
            id=memory.id,
            pid=memory.pid,
            descriptor=memory.descriptor,
            byte_size=memory.byte_size,
            nonce=memory.nonce,
        ).SerializeToString()
        # `answered` keeps the memory: its file must not be closed before the server has answered.
        answered = partial(self._answered, memory, loan)
        try:
            rpc.start_unary(link.channel, "TensorService.LendMemory", request, link.metadata, answered)
        except ValueError:
            self._loans.pop(memory.id, None)
        except RuntimeError:
            # The system has no thread to give at the moment.
            loan.is_asked = False

    def _answered(self, memory: LentMemory, loan: _Loan, call: rpc.UnaryFuture) -> None:
        try:
            call.result()
        except grpc.FutureCancelledError:
            loan.is_asked = False
        except grpc.RpcError as raised:
            self._refuse(loan, rpc.error_from(raised, str(self._address)))
        else:
            _LOG.debug("the server at %s reads %r in place", self._address, memory)
            self._refused_by = ""
            loan.is_granted = True

    def _refuse(self, loan: _Loan, error: InferwireError) -> None:
        if isinstance(error, LOST):
            loan.is_asked = False
            return
        _LOG.debug("the server at %s is sent what it cannot read in place: %s", self._address, error)
        self._refused_by = loan.session_id

    def _forget(self, memory_id: int) -> None:
        loan = self._loans.pop(memory_id, None)
        if loan is not None and loan.is_asked:
            self._releases.put(Released(lent=memory_id))
