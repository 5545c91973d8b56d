"""Encodes what is said of executions, tensors and states as the contract's messages, and decodes it.

Owns how each of these values is written and read, wherever it is part of a message; what is said of models is
`model_codec`'s. Requests are put together by whoever makes the calls, and the session's messages in `session`. Does not
touch tensors' bytes: senders join them behind a header, and receivers cut them off as views
(`inferwire_proto.raw_fields`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from time import perf_counter

from inferwire.errors import InferwireError, error_of
from inferwire.transport.descriptions import StateValue
from inferwire.transport.executions import (
    ExecutionHeader,
    LayerTime,
    Outcome,
    OutputBytes,
    OutputForm,
    SequenceMark,
    StoredBox,
    Target,
    TensorSpec,
    Timings,
    WireBytes,
)
from inferwire.values.scheduling import NORMAL
from inferwire_proto import element_types, errors, strings
from inferwire_proto.element_types import ElementType
from inferwire_proto.inferwire.v1 import inference_pb2, types_pb2

_LAYER_STATES: Mapping[int, str] = {
    types_pb2.LAYER_STATUS_NOT_RUN: "NOT_RUN",
    types_pb2.LAYER_STATUS_OPTIMIZED_OUT: "OPTIMIZED_OUT",
    types_pb2.LAYER_STATUS_EXECUTED: "EXECUTED",
}


def encode_header(header: ExecutionHeader) -> bytes:
    """Serialise an execution without its ids."""
    execution = inference_pb2.Execution(
        target=encode_target(header.target),
        inputs=[_encode_input(spec) for spec in header.inputs],
        profile=header.is_profiled,
        keeps=[inference_pb2.Keep(output=output, tensor_id=tensor_id) for output, tensor_id in header.keeps],
    )
    if header.scheduling != NORMAL:
        execution.scheduling.priority = header.scheduling.priority
        execution.scheduling.timeout_us = header.scheduling.time_limit_us
    if header.sequence is not None:
        execution.sequence.CopyFrom(encode_sequence(header.sequence))
    return execution.SerializeToString()


def encode_target(target: Target) -> inference_pb2.Target:
    """Write which model a call is about."""
    if target.is_served:
        return inference_pb2.Target(served=target.name, version=target.version, signature=target.signature)
    return inference_pb2.Target(compiled=target.name, signature=target.signature)


def encode_sequence(sequence: SequenceMark) -> inference_pb2.Sequence:
    """Write which sequence a call belongs to."""
    return inference_pb2.Sequence(id=sequence.id, start=sequence.is_start)


def encode_stored(box: StoredBox, element_type: ElementType, shape: Sequence[int]) -> types_pb2.TensorHeader:
    """Write the type and shape of a tensor that the server keeps, or of a box in it."""
    return types_pb2.TensorHeader(
        element_type=types_pb2.ElementType.ValueType(element_type.wire), shape=shape, stored=encode_box(box)
    )


def encode_box(box: StoredBox) -> types_pb2.StoredTensor:
    """Write which of the tensors that the server keeps is meant, and which box in it."""
    return types_pb2.StoredTensor(id=box.id, begin=box.begin, end=box.end)


def encode_states(states: Sequence[StateValue]) -> list[types_pb2.TensorHeader]:
    """Write the names, types and shapes of states, without their bytes."""
    return [
        types_pb2.TensorHeader(
            name=state.name,
            element_type=types_pb2.ElementType.ValueType(state.element_type.wire),
            shape=state.shape,
        )
        for state in states
    ]


def decode_states(headers: Iterable[types_pb2.TensorHeader], raw: Sequence[WireBytes]) -> list[StateValue]:
    """Read states."""
    return [
        StateValue(header.name, element_type_of(header.element_type), tuple(header.shape), data)
        for header, data in zip(headers, raw, strict=True)
    ]


def decode_result(
    result: inference_pb2.ExecutionResult, raw: Sequence[WireBytes], count: int = 1
) -> tuple[Outcome, Iterable[OutputBytes]]:
    """Read the result of `count` executions that ran together; each has its part of every output, in order of the ids.

    Returns:
        Their outcome, which counts as having come now, and the bytes of each one's outputs.
    """
    if not count:
        raise ValueError("a result names no execution, expected one at least")
    came_at = perf_counter()
    timings = _timings(result.timings)
    profile = decode_layers(result.profile) if result.profile else ()
    if result.HasField("error"):
        return Outcome((), timings, came_at, decode_error(result.error), profile), [()] * count
    outcome = Outcome(_forms(result), timings, came_at, None, profile)
    if len(raw) != count_sent(result):
        raise ValueError(f"the result of {count_sent(result)} outputs has bytes of {len(raw)}")
    if count > 1:
        columns = [_column(form, data, count) for form, data in zip(outcome.forms, raw, strict=True)]
        return outcome, zip(*columns, strict=True) if columns else [()] * count
    buffers = iter(raw)
    return outcome, [[None if header.HasField("stored") else next(buffers) for header in result.outputs]]


def decode_layers(layers: Iterable[types_pb2.LayerTime]) -> list[LayerTime]:
    """Read the time that each layer took."""
    return [
        LayerTime(
            layer.node_name,
            layer.node_type,
            layer.exec_type,
            _LAYER_STATES.get(layer.status, "NOT_RUN"),
            layer.real_time_us,
            layer.cpu_time_us,
        )
        for layer in layers
    ]


def count_sent(result: inference_pb2.ExecutionResult) -> int:
    """How many of a result's outputs have their bytes in the message."""
    return len(result.outputs) - sum([header.HasField("stored") for header in result.outputs])


def decode_error(error: types_pb2.Error) -> InferwireError:
    """Read an error; a code this client does not know becomes the root exception."""
    return error_of(errors.BY_WIRE.get(error.code), error.message, error.retry_after_s or None)


def element_type_of(number: int) -> ElementType:
    """Read a type.

    Raises:
        InferwireError: For one that only a client of a later version knows.
    """
    if number not in element_types.BY_WIRE:
        raise InferwireError(
            f"the server's element type {number} is one that only a later version of the client may know"
        )
    return element_types.BY_WIRE[number]


def _encode_input(spec: TensorSpec) -> types_pb2.TensorHeader:
    return types_pb2.TensorHeader(
        index=spec.index,
        element_type=types_pb2.ElementType.ValueType(spec.element_type.wire),
        shape=spec.shape,
        stored=None if spec.stored is None else encode_box(spec.stored),
        lent=spec.lent,
    )


def _forms(result: inference_pb2.ExecutionResult) -> list[OutputForm]:
    return [OutputForm(element_types.BY_WIRE[each.element_type], tuple(each.shape)) for each in result.outputs]


def _column(form: OutputForm, data: WireBytes, count: int) -> Sequence[WireBytes]:
    """Cut the bytes of one output of a stack into each execution's part."""
    if form.element_type.is_string:
        return strings.cut(memoryview(data), prod(form.shape), count)
    size = len(data) // count
    return [data[start : start + size] for start in range(0, size * count, size)] if size else [data] * count


def _timings(timings: types_pb2.Timings) -> Timings:
    return Timings(timings.queue_us / 1000, timings.inference_us / 1000, timings.total_us / 1000)
