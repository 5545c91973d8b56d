"""Models, ports, sources and properties of inferwire.v1, between the server's values and the messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from inferwire_proto import added_outputs, port_names, properties
from inferwire_proto.inferwire.v1 import models_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_proto.preprocessing import Recording, calls_from_wire, recording_of
from inferwire_proto.properties import PropertyValue
from inferwire_server.core.layers import GraphNode, ModelGraph
from inferwire_server.core.model_options import Preprocessing
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec, Shape
from inferwire_server.errors import ServingError, bug, invalid_input
from inferwire_server.service.models import Model
from inferwire_server.service.uploads import UploadedSource
from inferwire_server.transport.message_limits import FEW


def encode_model(model: Model) -> pb.ModelInfo:
    """Describe a compiled model."""
    info = encode_spec(model.spec)
    info.version = model.version
    info.optimal_number_of_infer_requests = model.optimal_requests
    info.slots = model.slots
    batching = model.terms.batching
    info.max_batch_rows = 0 if batching is None else batching.max_size
    info.execution_devices.extend(model.execution_devices)
    for name, value in model.properties.items():
        info.properties[name].CopyFrom(encode_property(name, value))
    return info


def encode_spec(spec: ModelSpec) -> pb.ModelInfo:
    """Describe a model that is not compiled."""
    return pb.ModelInfo(
        name=spec.name,
        inputs=[_encode_port(port) for port in spec.inputs],
        outputs=[_encode_port(port) for port in spec.outputs],
        states=spec.states,
        sinks=[_encode_port(port) for port in spec.sinks],
        signature=spec.signature,
    )


def encode_runtime_model(graph: ModelGraph) -> pb.GetRuntimeModelResponse:
    """Describe the graph that a device runs."""
    return pb.GetRuntimeModelResponse(model=encode_spec(graph.spec), nodes=map(_encode_node, graph.nodes))


def encode_nodes(graph: ModelGraph) -> pb.ListNodesResponse:
    """Describe the graph of a model that is not compiled."""
    return pb.ListNodesResponse(model=encode_spec(graph.spec), nodes=map(_encode_node, graph.nodes))


def encode_property(name: str, value: PropertyValue) -> types_pb2.PropertyValue:
    """Encode the value of a property the runtime gave."""
    try:
        return properties.to_wire(value)
    except (TypeError, ValueError) as error:
        raise bug(f"property {name} cannot travel: {error}") from error


def decode_properties(values: Mapping[str, types_pb2.PropertyValue]) -> dict[str, PropertyValue]:
    """Read the properties to compile a model with.

    Raises:
        ServingError: INVALID_INPUT, also for more values than any device takes: a great many keep the runtime busy for
            seconds, and Python does nothing else meanwhile.
    """
    if sum(1 for _ in islice(_each_value(values.values()), FEW + 1)) > FEW:
        raise invalid_input(f"the properties have more than {FEW} values, expected fewer")
    try:
        return properties.map_from_wire(values)
    except ValueError as error:
        raise invalid_input(f"the properties cannot be read: {error}") from error


def _each_value(values: Iterable[types_pb2.PropertyValue]) -> Iterator[types_pb2.PropertyValue]:
    """Give each of these values, and those within it."""
    for value in values:
        yield value
        match value.WhichOneof("kind"):
            case "list_value" | "tuple_value" | "set_value" as kind:
                yield from _each_value(getattr(value, kind).values)
            case "map_value":
                yield from _each_value(value.map_value.values.values())
            case _:
                pass


def decode_source(source: pb.ModelSource, preprocessing: Iterable[pb.Preprocessing]) -> UploadedSource:
    """Read which blobs make a model, and what is built into it.

    Raises:
        ServingError: INVALID_INPUT.
    """
    return UploadedSource(
        model=source.model_sha256,
        weights=source.weights_sha256 or None,
        suffix=source.suffix,
        reshape=_decode_shapes(source.reshape),
        variables=dict(source.variables_sha256),
        preprocessing=tuple(_decode_preprocessing(each) for each in preprocessing),
    )


def decode_recording(request: pb.DescribePreprocessingRequest) -> Recording:
    """Read what was recorded of a model.

    Raises:
        ServingError: INVALID_INPUT.
    """
    try:
        return recording_of(request)
    except ValueError as error:
        raise _unreadable(error) from error


def _encode_node(node: GraphNode) -> pb.RuntimeNode:
    outputs = [_encode_port(port) for port in node.outputs]
    port = types_pb2.Port()
    if outputs:
        port.CopyFrom(outputs[0])
    port.node_name, port.node_type = node.name, node.type
    attributes = types_pb2.PropertyMap(values=properties.map_to_wire(node.attributes))
    return pb.RuntimeNode(
        port=port, info=node.info, input_count=node.input_count, outputs=outputs, attributes=attributes
    )


def _decode_preprocessing(message: pb.Preprocessing) -> Preprocessing:
    try:
        calls = calls_from_wire(message.calls)
        added = tuple(map(added_outputs.from_wire, message.added_outputs))
    except ValueError as error:
        raise _unreadable(error) from error
    names = tuple(map(port_names.from_wire, message.names))
    return Preprocessing(
        calls,
        _decode_shapes(message.reshape),
        added_outputs=added,
        names=names,
        reshape_positions={
            position: _decode_shape(f"input {position}", shape) for position, shape in message.reshape_positions.items()
        },
    )


def _unreadable(error: ValueError) -> ServingError:
    return invalid_input(f"the preprocessing cannot be read: {error}")


def _encode_port(port: PortSpec) -> types_pb2.Port:
    source = port.source
    return types_pb2.Port(
        names=sorted(port.names),
        element_type=types_pb2.ElementType.ValueType(port.element_type.wire),
        partial_shape=_encode_shape(port.shape),
        node_name=port.node_name,
        node_type=port.node_type,
        oip_name=port.oip_name,
        layout=port.layout,
        source=source
        and types_pb2.PortSource(node_name=source.node_name, node_type=source.node_type, index=source.index),
    )


def _encode_shape(shape: Shape) -> types_pb2.PartialShape:
    if shape is None:
        return types_pb2.PartialShape(dynamic_rank=True)
    dimensions = [types_pb2.Dimension(min=d.min, max=-1 if d.max is None else d.max) for d in shape]
    return types_pb2.PartialShape(dimensions=dimensions)


def _decode_shapes(shapes: Mapping[str, types_pb2.PartialShape]) -> dict[str, Shape]:
    return {name: _decode_shape(f"port '{name}'", shape) for name, shape in shapes.items()}


def _decode_shape(port: str, shape: types_pb2.PartialShape) -> Shape:
    if shape.dynamic_rank:
        return None
    for dimension in shape.dimensions:
        if not dimension.min >= 0 or not (dimension.max == -1 or dimension.max >= dimension.min):
            raise invalid_input(
                f"{port} is to have a dimension of {dimension.min} to {dimension.max}, "
                "expected 0 <= min <= max, or -1 for no largest length"
            )
    return tuple(Dimension(d.min, None if d.max == -1 else d.max) for d in shape.dimensions)
