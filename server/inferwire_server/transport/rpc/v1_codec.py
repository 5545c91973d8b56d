"""Executions of inferwire.v1 as inferences, and ended jobs as results.

This is on the fast path: what it does per execution is counted in microseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

from inferwire_proto import strings
from inferwire_proto.element_types import BY_WIRE, ElementType
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_server.core.boxes import Box
from inferwire_server.core.job import Job, Result, Timings
from inferwire_server.core.layers import LayerStatus, LayerTime
from inferwire_server.core.sessions import Session
from inferwire_server.core.tensors import Tensor, describe
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service.values import Inference, SequenceCall, ServedModel, StoredTensor, Target, UploadedModel

Raw: TypeAlias = Sequence[bytes | memoryview]

_LAYER_STATES = {
    LayerStatus.NOT_RUN: types_pb2.LAYER_STATUS_NOT_RUN,
    LayerStatus.OPTIMIZED_OUT: types_pb2.LAYER_STATUS_OPTIMIZED_OUT,
    LayerStatus.EXECUTED: types_pb2.LAYER_STATUS_EXECUTED,
}


def decode_execution(execution: pb.Execution, raw: Raw, session: Session | None, count: int = 1) -> Inference:
    """Read one execution with its inputs' bytes, or a stack of so many as one inference with the rows of all.

    Raises:
        ServingError: INVALID_INPUT.
    """
    inputs = execution.inputs
    if len(raw) != (sent := count_sent(inputs)):
        raise invalid_input(f"the execution has {sent} inputs, but the message has bytes of {len(raw)}")
    buffers = iter(raw)
    scheduling = execution.scheduling
    timeout_us = scheduling.timeout_us
    target = execution.target
    return Inference(
        decode_target(target, session),
        tuple([(header.name or header.index, _input(header, buffers, session, count)) for header in inputs]),
        tuple(execution.outputs),
        scheduling.priority,
        timeout_us / 1e6 if timeout_us else None,
        target.signature,
        decode_sequence(execution.sequence, session) if execution.HasField("sequence") else None,
        is_profiled=execution.profile,
        count=count,
        keeps={keep.output: _stored(keep.tensor_id, session) for keep in execution.keeps},
    )


def decode_stack(execution: pb.Execution, raw: Raw, session: Session | None) -> Inference | None:
    """Read a stack as one inference with the rows of all its executions; None where that cannot be.

    Raises:
        ServingError: INVALID_INPUT.
    """
    inputs = execution.inputs
    is_alike = not execution.HasField("sequence") and not execution.keeps and count_sent(inputs) == len(inputs)
    if not is_alike or not all(header.shape for header in inputs):
        return None
    return decode_execution(execution, raw, session, len(execution.ids))


def decode_each(execution: pb.Execution, raw: Raw, session: Session | None) -> list[Inference]:
    """Read an execution, or each of a stack with its share of the inputs' bytes.

    Raises:
        ServingError: INVALID_INPUT.
    """
    count = len(execution.ids)
    if count == 1:
        return [decode_execution(execution, raw, session)]
    if execution.HasField("sequence") or execution.keeps or count_sent(execution.inputs) != len(execution.inputs):
        raise invalid_input(
            f"a stack of {count} executions names a sequence or kept tensors, expected one execution at a time"
        )
    columns = [_cut_column(header, memoryview(data), count) for header, data in zip(execution.inputs, raw, strict=True)]
    return [decode_execution(execution, [column[index] for column in columns], session) for index in range(count)]


def count_sent(headers: Collection[types_pb2.TensorHeader]) -> int:
    """Say how many tensors have their bytes in the message."""
    return len(headers) - sum([header.HasField("stored") for header in headers])


def decode_stored(stored: types_pb2.StoredTensor, session: Session | None) -> StoredTensor:
    """Read which of a session's tensors is meant, or which box of it.

    Raises:
        ServingError: INVALID_INPUT.
    """
    whole = _stored(stored.id, session)
    box = Box(tuple(stored.begin), tuple(stored.end)) if stored.begin or stored.end else None
    return replace(whole, box=box)


def decode_sequence(sequence: pb.Sequence, session: Session | None) -> SequenceCall:
    """Read which of a session's sequences a call belongs to.

    Raises:
        ServingError: INVALID_INPUT.
    """
    if session is None:
        raise invalid_input("the call names a sequence but no session, expected the session that it is one of")
    if not sequence.id:
        raise invalid_input("the call names sequence 0, expected an id from 1 up")
    return SequenceCall(sequence.id, session, is_start=sequence.start, is_end=sequence.end)


def decode_target(target: pb.Target, session: Session | None) -> Target:
    """Read which model a call is about.

    Raises:
        ServingError: INVALID_INPUT.
    """
    if target.served:
        return ServedModel(target.served, target.version)
    if target.compiled:
        return UploadedModel(target.compiled, session)
    raise invalid_input("the call names no model, expected a served or a compiled one")


def decode_tensor(header: types_pb2.TensorHeader, data: bytes | memoryview) -> Tensor:
    """Read a tensor.

    Raises:
        ServingError: INVALID_INPUT.
    """
    return Tensor(_element_type(header), tuple(header.shape), data)


def encode_result(job: Job, result: Result, count: int = 1) -> tuple[pb.ExecutionResult, list[bytes | memoryview]]:
    """Write what an execution of an ended job gave, or a stack of so many, without ids, and the outputs' bytes."""
    timings = encode_timings(job.timings)
    profile = encode_layers(job.profile) if job.profile else ()
    if isinstance(result, ServingError):
        return pb.ExecutionResult(timings=timings, error=encode_error(result), profile=profile), []
    headers = [
        types_pb2.TensorHeader(
            index=position,
            element_type=types_pb2.ElementType.ValueType(tensor.element_type.wire),
            shape=tensor.shape if count == 1 else (tensor.shape[0] // count, *tensor.shape[1:]),
            stored=types_pb2.StoredTensor(id=tensor.stored_as) if tensor.stored_as else None,
        )
        for position, tensor in zip(job.work.outputs, result, strict=True)
    ]
    sent = [tensor.data for tensor in result if not tensor.stored_as]
    return pb.ExecutionResult(outputs=headers, timings=timings, profile=profile), sent


def encode_timings(timings: Timings) -> types_pb2.Timings:
    """Write where a job's time went."""
    return types_pb2.Timings(
        queue_us=round(timings.queue_s * 1e6),
        inference_us=round(timings.inference_s * 1e6),
        total_us=round(timings.total_s * 1e6),
    )


def encode_layers(layers: Sequence[LayerTime]) -> list[types_pb2.LayerTime]:
    """Write what each layer took."""
    return [
        types_pb2.LayerTime(
            node_name=layer.node_name,
            node_type=layer.node_type,
            exec_type=layer.exec_type,
            status=_LAYER_STATES[layer.status],
            real_time_us=layer.real_time_us,
            cpu_time_us=layer.cpu_time_us,
        )
        for layer in layers
    ]


def encode_error(error: ServingError) -> types_pb2.Error:
    """Write why there are no outputs."""
    return types_pb2.Error(
        code=types_pb2.ErrorCode.ValueType(error.code.wire),
        message=error.message,
        retry_after_s=error.retry_after_s or 0.0,
    )


def _input(
    header: types_pb2.TensorHeader, buffers: Iterator[bytes | memoryview], session: Session | None, count: int
) -> Tensor | StoredTensor:
    if header.HasField("stored"):
        return decode_stored(header.stored, session)
    tensor = decode_tensor(header, next(buffers))
    return tensor if count == 1 else replace(tensor, shape=(tensor.shape[0] * count, *tensor.shape[1:]))


def _stored(tensor_id: int, session: Session | None) -> StoredTensor:
    if session is None:
        raise invalid_input("the call names a kept tensor but no session, expected the session that keeps it")
    if not tensor_id:
        raise invalid_input("the call names kept tensor 0, expected an id from 1 up")
    return StoredTensor(session, tensor_id)


def _element_type(header: types_pb2.TensorHeader) -> ElementType:
    element_type = BY_WIRE.get(header.element_type)
    if element_type is None:
        name = f"'{header.name}'" if header.name else f"number {header.index}"
        raise invalid_input(f"input {name} has element type {header.element_type}, expected 1 to {max(BY_WIRE)}")
    return element_type


def _cut_column(header: types_pb2.TensorHeader, data: memoryview, count: int) -> list[memoryview]:
    """Cut one input's bytes into those of each execution of a stack."""
    element_type, shape = _element_type(header), tuple(header.shape)
    if element_type.is_string:
        return strings.cut(data, prod(shape), count)
    size = element_type.byte_size(shape) if min(shape, default=0) >= 0 else 0
    if data.nbytes != size * count:
        raise invalid_input(
            f"{count} tensors {describe(element_type, shape)} have {data.nbytes} bytes, expected {size * count}"
        )
    return [data[start : start + size] for start in range(0, size * count, size)] if size else [data] * count
