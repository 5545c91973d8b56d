"""Encodes the seam's values as the contract's messages, and decodes them.

Owns how each value is written and read, wherever it is part of a message. Requests are put together by whoever makes
the calls, and the session's messages in `session`. Does not touch tensors' bytes: senders join them behind a header,
and receivers cut them off as views (`inferwire_proto.raw_fields`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import prod
from time import perf_counter
from typing import TypeAlias, TypeVar

from inferwire.errors import InferwireError, UnsupportedType, error_of
from inferwire.graph.described import PortDescription, PortSource
from inferwire.transport.descriptions import (
    GraphDescription,
    GraphNode,
    ModelDescription,
    ModelSource,
    ModelStatus,
    StateValue,
)
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
from inferwire.values.dimensions import Dimension
from inferwire.values.partial_shape import PartialShape
from inferwire.values.scheduling import NORMAL
from inferwire.values.types import Type, type_of
from inferwire_proto import added_outputs, element_types, errors, port_names, properties, strings
from inferwire_proto.element_types import ElementType
from inferwire_proto.inferwire.v1 import inference_pb2, models_pb2, types_pb2
from inferwire_proto.preprocessing import calls_to_wire
from inferwire_proto.properties import Properties, PropertyValue

SourceRequest: TypeAlias = (
    models_pb2.ReadRequest
    | models_pb2.ListNodesRequest
    | models_pb2.DescribePreprocessingRequest
    | models_pb2.CompileRequest
    | models_pb2.QueryRequest
)
"""A call about a model of uploaded files."""

Key = TypeVar("Key", str, int)

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
        StateValue(header.name, _element_type(header.element_type), tuple(header.shape), data)
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


def decode_statuses(models: Iterable[models_pb2.ModelStatus]) -> list[ModelStatus]:
    """Read what a server serves."""
    return [ModelStatus(each.name, each.version, _state(each.state), each.reason) for each in models]


def _state(state: int) -> str:
    # A server of a later version may have states that this client has no name for.
    known = models_pb2.ModelState.DESCRIPTOR.values_by_number.get(state)
    return known.name.removeprefix("MODEL_STATE_").lower() if known else f"state {state}"


def decode_model(info: models_pb2.ModelInfo) -> ModelDescription:
    """Read the description of a model."""
    return ModelDescription(
        name=info.name,
        version=info.version,
        inputs=tuple(_port(port) for port in info.inputs),
        outputs=tuple(_port(port) for port in info.outputs),
        states=tuple(info.states),
        sinks=tuple(_port(port) for port in info.sinks),
        signature=info.signature,
        optimal_number_of_infer_requests=info.optimal_number_of_infer_requests,
        properties=_known(info.properties),
        max_batch_rows=info.max_batch_rows,
    )


def decode_graph(response: models_pb2.GetRuntimeModelResponse | models_pb2.ListNodesResponse) -> GraphDescription:
    """Read the graph that a device runs, or that a model has."""
    return GraphDescription(decode_model(response.model), tuple(map(_graph_node, response.nodes)))


def decode_property(name: str, value: types_pb2.PropertyValue) -> PropertyValue:
    """Read a property.

    Raises:
        UnsupportedType: For a value that only a client of a later version reads.
    """
    try:
        return properties.from_wire(value)
    except ValueError as error:
        raise UnsupportedType(
            f"the value of {name} is of a type that only a later version of the client may know: {error}"
        ) from None


def put_source(request: SourceRequest, source: ModelSource) -> None:
    """Write into a call which uploaded files its model is made of, and what is built into the model."""
    made = models_pb2.ModelSource(
        model_sha256=source.model,
        weights_sha256=source.weights,
        suffix=source.suffix,
        reshape=_encode_shapes(source.reshape),
        variables_sha256=source.variables,
    )
    request.source.CopyFrom(made)
    for each in source.preprocessing:
        request.preprocessing.add(
            calls=calls_to_wire(each.calls),
            reshape=_encode_shapes(each.reshape),
            added_outputs=map(added_outputs.to_wire, each.added_outputs),
            names=map(port_names.to_wire, each.names),
            reshape_positions=_encode_shapes(each.reshape_positions),
        )


def _graph_node(node: models_pb2.RuntimeNode) -> GraphNode:
    outputs = tuple(map(_port, node.outputs))
    attributes = _known(node.attributes.values) if node.HasField("attributes") else None
    return GraphNode(_port(node.port), dict(node.info), node.input_count, outputs, attributes)


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


def _port(port: types_pb2.Port) -> PortDescription:
    return PortDescription(
        names=frozenset(port.names),
        element_type=type_of(_element_type(port.element_type)) if port.element_type else Type.dynamic,
        partial_shape=_partial_shape(port.partial_shape),
        node_name=port.node_name,
        node_type=port.node_type,
        oip_name=port.oip_name,
        layout=port.layout,
        source=_source(port.source) if port.HasField("source") else None,
    )


def _element_type(number: int) -> ElementType:
    if number not in element_types.BY_WIRE:
        raise InferwireError(
            f"the server's element type {number} is one that only a later version of the client may know"
        )
    return element_types.BY_WIRE[number]


def _known(values: Mapping[str, types_pb2.PropertyValue]) -> Properties:
    """Read the properties, without those that only a later client can read: the others are of use all the same."""
    known: dict[str, PropertyValue] = {}
    for name, value in values.items():
        with suppress(UnsupportedType):
            known[name] = decode_property(name, value)
    return known


def _source(source: types_pb2.PortSource) -> PortSource:
    return PortSource(source.node_name, source.node_type, source.index)


def _partial_shape(shape: types_pb2.PartialShape) -> PartialShape:
    if shape.dynamic_rank:
        return PartialShape.dynamic()
    return PartialShape([Dimension(each.min, each.max) for each in shape.dimensions])


def _encode_shapes(shapes: Mapping[Key, PartialShape]) -> dict[Key, types_pb2.PartialShape]:
    return {key: _encode_partial_shape(shape) for key, shape in shapes.items()}


def _encode_partial_shape(shape: PartialShape) -> types_pb2.PartialShape:
    if shape.rank.is_dynamic:
        return types_pb2.PartialShape(dynamic_rank=True)
    return types_pb2.PartialShape(
        dimensions=[types_pb2.Dimension(min=each.min_length, max=each.max_length) for each in shape]
    )
