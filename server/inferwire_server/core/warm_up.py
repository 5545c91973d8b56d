"""What a model runs before it takes jobs: zeros in the shapes its settings give."""

from __future__ import annotations

from collections.abc import Mapping

from inferwire_server.core.specs import ModelSpec, PortSpec
from inferwire_server.core.tensors import Tensor, zero_tensor
from inferwire_server.errors import invalid_input


def zeros(spec: ModelSpec, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Tensor, ...]:
    """Make zeros, or empty strings, for each input of a model, in the shape that is given or the only one it takes.

    Raises:
        ServingError: INVALID_INPUT for a shape that does not fit, is missing, or is of no input.
    """
    given = [(name, zero_tensor(spec.input(name).element_type, shape)) for name, shape in shapes.items()]
    named = {spec.input(name).oip_name for name in shapes}
    others = [port for port in spec.inputs if port.oip_name not in named]
    own = [(port.oip_name, zero_tensor(port.element_type, _only_shape(port))) for port in others]
    return spec.arrange([*given, *own])


def _only_shape(port: PortSpec) -> tuple[int, ...]:
    if port.shape is None or not all(dimension.is_static for dimension in port.shape):
        raise invalid_input(
            f"input '{port.oip_name}' takes shapes {port.shape_text}, expected one of them to warm up with"
        )
    return tuple(dimension.min for dimension in port.shape)
