"""What a model of OpenVINO takes and gives, as the server describes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import openvino as ov

from inferwire_proto.element_types import BY_NAME, ElementType
from inferwire_proto.errors import Code
from inferwire_server.core.layers import DYNAMIC_TYPE
from inferwire_server.core.specs import Dimension, ModelSpec, PortSource, PortSpec, Shape
from inferwire_server.errors import ServingError, UnfitSetting
from inferwire_server.openvino_backend.screening.first_values import BEGUN

NODE_TYPES = BY_NAME | {DYNAMIC_TYPE.name: DYNAMIC_TYPE}
"""The element types of what nodes give to one another."""


def spec_of(
    name: str,
    ports: ov.Model | ov.CompiledModel,
    states: Sequence[str],
    names: Sequence[set[str]] | None = None,
) -> ModelSpec:
    """Describe a model, compiled or not; `names` are those its ports had before it was compiled."""
    if names is None:
        names = [port.get_names() for port in (*ports.inputs, *ports.outputs)]
    count = len(ports.inputs)
    return ModelSpec(
        name,
        ports_of(ports.inputs, names[:count], "input"),
        ports_of(ports.outputs, names[count:], "output"),
        tuple(states),
    )


def check_inputs(model: ov.Model, names: Iterable[str], setting: Callable[[str], Sequence[str]]) -> None:
    """Check that a model has the inputs that settings name; "" stands for the only one.

    Raises:
        UnfitSetting: For the first that the model does not have, with the path that `setting` gives for its name.
    """
    known = {name for port in model.inputs for name in port.get_names()}
    for name in sorted(set(names) - known - {""}):
        expected = ", ".join(sorted(known)) or "none"
        raise UnfitSetting(setting(name), f"there is no input '{name}', expected one of {expected}")


def read_spec(model: ov.Model) -> ModelSpec:
    """Describe a model that is not compiled, with its sinks."""
    written = [sink.output(0) for sink in model.get_sinks()]
    sinks = ports_of(written, [set[str]()] * len(written), "sink", NODE_TYPES)
    return replace(spec_of(model.friendly_name, model, states_of(model)), sinks=sinks)


def imported_spec(name: str, compiled: ov.CompiledModel) -> ModelSpec:
    """Describe a model of which there is no source."""
    return spec_of(name or compiled.get_property("NETWORK_NAME"), compiled, compiled_states_of(compiled))


def states_of(model: ov.Model) -> list[str]:
    """Name the states of a model that is not compiled: sorted, since OpenVINO gives them in another order each time."""
    return sorted(variable.info.variable_id for variable in model.get_variables())


def compiled_states_of(compiled: ov.CompiledModel) -> list[str]:
    """Name the states of a compiled model that callers have, in the order of its requests."""
    return [state.name for state in compiled.create_infer_request().query_state() if state.name != BEGUN]


def texts(info: Mapping[str, Any]) -> dict[str, Any]:
    """Give what a model's file says of it as texts, or tables of them, without what the runtime notes of this host."""
    return {
        name: texts(cast("dict[str, Any]", below)) if isinstance(below, dict) else _text(below)
        for name, below in info.items()
        if not name.startswith("__")
    }


def _text(value: Any) -> str:
    """Write a value as OpenVINO does in a model's file."""
    plain = value.value if isinstance(value, ov.OVAny) else value
    match plain:
        case bool():
            return "YES" if plain else "NO"
        case list() | tuple():
            return " ".join(map(_text, cast("Sequence[Any]", plain)))
        case _:
            return str(plain)


def ports_of(
    ports: Sequence[Any], names: Sequence[set[str]], kind: str, types: Mapping[str, ElementType] = BY_NAME
) -> tuple[PortSpec, ...]:
    """Describe ports. The protocol's name is the smallest of a port's own, unless another has it too.

    Raises:
        ServingError: MODEL_FAILED if one has another element type than one of `types`.
    """
    smallest = [min(own, default="") for own in names]
    return tuple(
        PortSpec(
            names=frozenset(port.get_names()),
            oip_name=name if name and smallest.count(name) == 1 else _free_name(f"{kind}_{index}", smallest),
            element_type=_element_type(port, f"{kind} {index}", types),
            shape=_shape(port.get_partial_shape()),
            node_name=port.get_node().get_friendly_name(),
            node_type=port.get_node().get_type_name(),
            layout=_layout(port),
            source=_source(port.get_node()),
        )
        for index, (port, name) in enumerate(zip(ports, smallest, strict=True))
    )


def _free_name(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _source(node: Any) -> PortSource | None:
    if node.get_type_name() != "Result":
        return None
    output = node.input(0).get_source_output()
    return PortSource(output.get_node().get_friendly_name(), output.get_node().get_type_name(), output.get_index())


def _layout(port: Any) -> str:
    layout = ov.layout_helpers.get_layout(port)
    return "" if layout.empty else layout.to_string()


def _element_type(port: Any, what: str, types: Mapping[str, ElementType]) -> ElementType:
    name = port.get_element_type().get_type_name()
    if name not in types:
        raise ServingError(Code.MODEL_FAILED, f"{what} has element type {name}, expected a known one")
    return types[name]


def _shape(shape: ov.PartialShape) -> Shape:
    if shape.rank.is_dynamic:
        return None
    return tuple(Dimension(d.get_min_length(), None if d.get_max_length() == -1 else d.get_max_length()) for d in shape)


def partial_shape(shape: Shape) -> ov.PartialShape:
    """Give a shape as OpenVINO's."""
    if shape is None:
        return ov.PartialShape.dynamic()
    return ov.PartialShape([ov.Dimension(d.min, -1 if d.max is None else d.max) for d in shape])
