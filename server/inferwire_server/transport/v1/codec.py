"""Values of inferwire.v1 read, and ended jobs written as results. What whole executions ask for is read in `plans`.

This is on the fast path: what it does per execution is counted in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from inferwire_proto.element_types import BY_WIRE, ElementType
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_server.core.boxes import Box
from inferwire_server.core.layers import LayerStatus, LayerTime
from inferwire_server.core.scheduling.job import Job, Result, Timings
from inferwire_server.core.sessions import Session
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service.values import LentTensor, SequenceCall, ServedModel, StoredTensor, Target, UploadedModel

_MOST_HEADS = 512
"""For how many ways in which results describe their outputs the encoded heads are kept."""

_Described: TypeAlias = tuple[int, int, tuple[int, ...], int]
"""What a result says of an output: position, element type, shape, and the id under which its session keeps it."""

_LAYER_STATES = {status: types_pb2.LayerStatus.Value(f"LAYER_STATUS_{status.name}") for status in LayerStatus}


def decode_stored(stored: types_pb2.StoredTensor, session: Session | None) -> StoredTensor:
    """Read which of a session's tensors is meant, or which box of it.

    Raises:
        ServingError: INVALID_INPUT.
    """
    whole = _stored(stored.id, session)
    box = Box(tuple(stored.begin), tuple(stored.end)) if stored.begin or stored.end else None
    return replace(whole, box=box)


def decode_lent(header: types_pb2.TensorHeader, session: Session | None) -> LentTensor:
    """Read in which piece of memory that a session's client has lent an input lies.

    Raises:
        ServingError: INVALID_INPUT.
    """
    if session is None:
        raise invalid_input("the call names lent memory but no session, expected the session that has lent it")
    return LentTensor(session, header.lent, decode_element_type(header), tuple(header.shape))


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
    return Tensor(decode_element_type(header), tuple(header.shape), data)


def decode_keeps(keeps: Iterable[pb.Keep], session: Session | None) -> dict[int, StoredTensor]:
    """Read where a session is to keep outputs, by their positions.

    Raises:
        ServingError: INVALID_INPUT.
    """
    return {keep.output: _stored(keep.tensor_id, session) for keep in keeps}


def decode_element_type(header: types_pb2.TensorHeader) -> ElementType:
    """Read an input's element type.

    Raises:
        ServingError: INVALID_INPUT.
    """
    element_type = BY_WIRE.get(header.element_type)
    if element_type is None:
        name = f"'{header.name}'" if header.name else f"number {header.index}"
        raise invalid_input(f"input {name} has element type {header.element_type}, expected 1 to {max(BY_WIRE)}")
    return element_type


def encode_result(job: Job, result: Result, ids: Sequence[int] = ()) -> tuple[bytes, list[bytes | memoryview]]:
    """Write the result of an ended job's execution, or of a stack with these ids; give it and its outputs' bytes."""
    written = pb.ExecutionResult(ids=ids)
    _write_timings(job.timings, written.timings)
    if job.profile:
        written.profile.extend(encode_layers(job.profile))
    if isinstance(result, ServingError):
        written.error.CopyFrom(encode_error(result))
        return written.SerializeToString(), []
    described: list[_Described] = []
    buffers: list[bytes | memoryview] = []
    for position, tensor in zip(job.work.outputs, result, strict=True):
        described.append((position, tensor.element_type.wire, tensor.shape, tensor.stored_as))
        if not tensor.stored_as:
            buffers.append(tensor.data)
    # Protobuf's fields may stand in any order, so two parts that are written one behind the other are one message.
    return _outputs_head(tuple(described), len(ids) or 1) + written.SerializeToString(), buffers


def _write_timings(timings: Timings, into: types_pb2.Timings) -> None:
    """Write where a job's time went. Setting fields takes protobuf half as long as making a message with them."""
    into.queue_us = round(timings.queue_s * 1e6)
    into.inference_us = round(timings.inference_s * 1e6)
    into.total_us = round(timings.total_s * 1e6)


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


def _stored(tensor_id: int, session: Session | None) -> StoredTensor:
    if session is None:
        raise invalid_input("the call names a kept tensor but no session, expected the session that keeps it")
    if not tensor_id:
        raise invalid_input("the call names kept tensor 0, expected an id from 1 up")
    return StoredTensor(session, tensor_id)


@lru_cache(_MOST_HEADS)
def _outputs_head(outputs: tuple[_Described, ...], count: int) -> bytes:
    """Write the description of an execution's outputs, or of each of `count` executions whose rows are together."""
    headers = [
        types_pb2.TensorHeader(
            index=position,
            element_type=types_pb2.ElementType.ValueType(element_type),
            shape=shape if count == 1 else (shape[0] // count, *shape[1:]),
            stored=types_pb2.StoredTensor(id=stored_as) if stored_as else None,
        )
        for position, element_type, shape, stored_as in outputs
    ]
    return pb.ExecutionResult(outputs=headers).SerializeToString()
