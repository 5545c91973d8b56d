"""Heads of executions, decoded once and kept: what is asked for, apart from ids and the tensors' bytes.

Clients send the same head again and again, with other ids and bytes: so what a head says is worked out once for a
stream, and kept for the next execution that has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeAlias

from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_server.core.sessions import Session
from inferwire_server.core.specs import PortKey
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import invalid_input
from inferwire_server.service.values import Inference, LentTensor, StoredTensor, Wanted
from inferwire_server.transport.message_limits import FEW, check_few
from inferwire_server.transport.raw_inputs import RawInput
from inferwire_server.transport.v1.codec import (
    decode_element_type,
    decode_keeps,
    decode_lent,
    decode_sequence,
    decode_stored,
    decode_target,
)

_LONGEST_KEPT = 2048
"""The longest head that is kept, in bytes."""

_MOST_KEPT = 128

Raw: TypeAlias = Sequence[bytes | memoryview]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the head of an execution says: the inputs, each as far as the head has it, and all else.

    Attributes:
        is_one_at_a_time: Whether it names a sequence, kept tensors or lent memory, which the executions of a stack
            cannot share.
    """

    inputs: tuple[tuple[PortKey, RawInput | StoredTensor | LentTensor], ...]
    is_one_at_a_time: bool
    _wanted: Wanted
    _has_rows: bool

    @classmethod
    def of(cls, execution: pb.Execution, session: Session | None) -> Plan:
        """Read the head of an execution.

        Raises:
            ServingError: INVALID_INPUT.
        """
        check_few("outputs", len(execution.outputs))
        check_few("outputs to keep", len(execution.keeps))
        target, scheduling = decode_target(execution.target, session), execution.scheduling
        inputs = tuple([(header.name or header.index, _input(header, session)) for header in execution.inputs])
        wanted = Wanted(
            target,
            tuple(execution.outputs),
            scheduling.priority,
            scheduling.timeout_us / 1e6 if scheduling.timeout_us else None,
            execution.target.signature,
            decode_sequence(execution.sequence, session) if execution.HasField("sequence") else None,
            is_profiled=execution.profile,
            keeps=decode_keeps(execution.keeps, session),
        )
        sent = [given for _, given in inputs if isinstance(given, RawInput)]
        is_one_at_a_time = len(sent) < len(inputs) or wanted.sequence is not None or bool(wanted.keeps)
        return cls(inputs, is_one_at_a_time, wanted, all(given.shape for given in sent))

    def inference(self, raw: Raw) -> Inference:
        """Say what is to run, on the bytes of an execution's inputs."""
        return Inference(self._wanted, self._filled(raw, 1))

    def stack(self, raw: Raw, count: int) -> Inference | None:
        """Say what is to run for `count` executions at once; None if they cannot be one inference."""
        if self.is_one_at_a_time or not self._has_rows:
            return None
        return Inference(self._wanted, self._filled(raw, count), count)

    def each(self, raw: Raw, count: int) -> list[Inference]:
        """Say what is to run for each execution of a stack, on its share of the inputs' bytes.

        Raises:
            ServingError: INVALID_INPUT.
        """
        if self.is_one_at_a_time:
            raise invalid_input(
                f"a stack of {count} executions names a sequence, kept tensors or lent memory, "
                "expected one execution at a time"
            )
        columns = [
            given.cut(memoryview(data), count)
            for (_, given), data in zip(self.inputs, raw, strict=True)
            if isinstance(given, RawInput)
        ]
        return [self.inference([column[index] for column in columns]) for index in range(count)]

    def _filled(self, raw: Raw, count: int) -> tuple[tuple[PortKey, Tensor | StoredTensor | LentTensor], ...]:
        data = iter(raw)
        return tuple(
            [
                (key, given.filled(next(data), count) if isinstance(given, RawInput) else given)
                for key, given in self.inputs
            ]
        )


class Plans:
    """The plans of a stream's executions: those of the heads that it sent last are kept."""

    def __init__(self, session: Session | None) -> None:
        self._session = session
        self._kept = lru_cache(_MOST_KEPT)(partial(_plan_of, session))

    def __repr__(self) -> str:
        return f"<Plans of {self._session!r}: {self._kept.cache_info().currsize} kept>"

    def of(self, execution: pb.Execution) -> Plan:
        """Give what an execution asks for. Its ids must have been taken out.

        Raises:
            ServingError: INVALID_INPUT.
        """
        head = execution.SerializeToString()
        return self._kept(head) if len(head) <= _LONGEST_KEPT else Plan.of(execution, self._session)


def decode_execution(execution: pb.Execution, raw: Raw, session: Session | None) -> Inference:
    """Read one execution with its inputs' bytes.

    Raises:
        ServingError: INVALID_INPUT.
    """
    if len(raw) != (sent := count_sent(execution.inputs)):
        raise invalid_input(f"the execution has {sent} inputs, but the message has bytes of {len(raw)}")
    return Plan.of(execution, session).inference(raw)


def count_sent(headers: Sequence[types_pb2.TensorHeader]) -> int:
    """Say how many of an execution's inputs have their bytes in the message.

    Raises:
        ServingError: INVALID_INPUT for more of them than any model has.
    """
    if len(headers) > FEW:
        check_few("inputs", len(headers))
    count = 0
    for header in headers:
        if not (header.HasField("stored") or header.lent):
            count += 1
    return count


def _plan_of(session: Session | None, head: bytes) -> Plan:
    return Plan.of(pb.Execution.FromString(head), session)


def _input(header: types_pb2.TensorHeader, session: Session | None) -> RawInput | StoredTensor | LentTensor:
    if header.HasField("stored"):
        return decode_stored(header.stored, session)
    if header.lent:
        return decode_lent(header, session)
    return RawInput(decode_element_type(header), tuple(header.shape))
