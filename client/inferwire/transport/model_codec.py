"""Decodes what a server says of models and their properties, and encodes what they are made of.

Owns how each of these values is written and read, wherever it is part of a message. What is said of executions is
`codec`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TypeAlias, TypeVar

from inferwire.errors import UnsupportedType
from inferwire.graph.described import PortDescription, PortSource
from inferwire.transport.codec import element_type_of
from inferwire.transport.descriptions import GraphDescription, GraphNode, ModelDescription, ModelSource, ModelStatus
from inferwire.values.dimensions import Dimension
from inferwire.values.partial_shape import PartialShape
from inferwire.values.types import Type, type_of
from inferwire_proto import added_outputs, port_names, properties
from inferwire_proto.inferwire.v1 import models_pb2, types_pb2
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


def decode_statuses(models: Iterable[models_pb2.ModelStatus]) -> list[ModelStatus]:
    """Read what a server serves."""
    return [ModelStatus(each.name, each.version, _state(each.state), each.reason) for each in models]


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


def _state(state: int) -> str:
    # A server of a later version may have states that this client has no name for.
    known = models_pb2.ModelState.DESCRIPTOR.values_by_number.get(state)
    return known.name.removeprefix("MODEL_STATE_").lower() if known else f"state {state}"


def _graph_node(node: models_pb2.RuntimeNode) -> GraphNode:
    outputs = tuple(map(_port, node.outputs))
    attributes = _known(node.attributes.values) if node.HasField("attributes") else None
    return GraphNode(_port(node.port), dict(node.info), node.input_count, outputs, attributes)


def _port(port: types_pb2.Port) -> PortDescription:
    return PortDescription(
        names=frozenset(port.names),
        element_type=type_of(element_type_of(port.element_type)) if port.element_type else Type.dynamic,
        partial_shape=_partial_shape(port.partial_shape),
        node_name=port.node_name,
        node_type=port.node_type,
        oip_name=port.oip_name,
        layout=port.layout,
        source=_source(port.source) if port.HasField("source") else None,
    )


def _source(source: types_pb2.PortSource) -> PortSource:
    return PortSource(source.node_name, source.node_type, source.index)


def _known(values: Mapping[str, types_pb2.PropertyValue]) -> Properties:
    """Read the properties, without those that only a later client can read: the others are of use all the same."""
    known: dict[str, PropertyValue] = {}
    for name, value in values.items():
        with suppress(UnsupportedType):
            known[name] = decode_property(name, value)
    return known


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
