"""Memory that sessions' clients lend to the server, which reads inputs of their executions where they lie.

Lent memory takes addresses of the server's, and no memory: so how many pieces there are is limited, and not how large
they are. What was given back stays mapped while a job reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from inferwire_proto.errors import Code
from inferwire_proto.lent_memory import Bytes
from inferwire_server.core.loans import Loan
from inferwire_server.core.sessions import Session, session_expired
from inferwire_server.core.tensor_checks import check_shape
from inferwire_server.core.tensors import Tensor, describe
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.host.lent_memory import open_loan
from inferwire_server.service.values import LentTensor

MOST_LOANS = 1024
"""How many one session may have: a process may have some ten thousand mappings."""


class LentMemory:
    """What each session has lent, by the ids that the session gave it."""

    def __init__(self, most_loans: int = MOST_LOANS, open_: Callable[[Loan], Bytes] = open_loan) -> None:
        self._most_loans = most_loans
        self._open = open_
        self._lent: dict[Session, dict[int, memoryview]] = {}

    def __repr__(self) -> str:
        return f"<LentMemory: {sum(map(len, self._lent.values()))} of {len(self._lent)} sessions>"

    def lend(self, session: Session, memory_id: int, loan: Loan) -> None:
        """Take memory of a session's client, in place of what has its id.

        Raises:
            ServingError: TOO_LARGE if the session has lent too much; what opening it raises.
        """
        if session.has_ended:
            raise session_expired(session.id)
        lent = self._lent.get(session, {})
        if memory_id not in lent and len(lent) >= self._most_loans:
            raise ServingError(
                Code.TOO_LARGE, f"the session has lent {self._most_loans} pieces of memory, which is the most it may"
            )
        opened = self._open(loan).data
        self._lent.setdefault(session, {})[memory_id] = opened

    def tensor(self, lent: LentTensor) -> Tensor:
        """Give an input that lies at the beginning of lent memory.

        Raises:
            ServingError: TENSOR_NOT_FOUND; INVALID_INPUT for what cannot lie there.
        """
        memory = self._lent.get(lent.session, {}).get(lent.memory_id)
        if memory is None:
            raise ServingError(
                Code.TENSOR_NOT_FOUND,
                f"memory {lent.memory_id} is not lent in this session: it never was, or is no more",
            )
        return Tensor(lent.element_type, lent.shape, memory[: _byte_size(lent, len(memory))])

    def release(self, session: Session, ids: Sequence[int]) -> None:
        """Give memory of a session back; pass over what it has not lent."""
        lent = self._lent.get(session, {})
        for memory_id in ids:
            lent.pop(memory_id, None)

    def end(self, session: Session) -> None:
        """Give all of a session's memory back."""
        self._lent.pop(session, None)


def _byte_size(lent: LentTensor, most: int) -> int:
    what = describe(lent.element_type, lent.shape)
    # The client may change the memory at any time, but the lengths of strings must be the same each time they are read.
    if lent.element_type.is_string or lent.element_type.is_packed:
        raise invalid_input(f"{what} cannot lie in lent memory, expected a type of whole bytes and fixed size")
    check_shape(f"what lies in lent memory {lent.memory_id}", lent.shape)
    byte_size = lent.element_type.byte_size(lent.shape)
    if byte_size > most:
        raise invalid_input(f"{what} has {byte_size} bytes, but the lent memory {lent.memory_id} has {most}")
    return byte_size
