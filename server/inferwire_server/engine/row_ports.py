"""Whether a model's ports have rows that can be put together and told apart, as far as its spec says."""

from __future__ import annotations

from math import prod

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.scheduling.rows import has_whole_rows
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.errors import ServingError

_REMEDY = (
    "batch = -1 in its inferwire.toml (or batch_size, where OpenVINO Model Server's file has one) frees it, "
    "as Model.reshape does in a program"
)


_MOST_NAMED = 3
"""How many states a refusal names: a language model has two for each of its layers."""


def check_can_be_batched(spec: ModelSpec, batching: Batching) -> None:
    """Refuse a model that has no rows to put together.

    Raises:
        ServingError: MODEL_FAILED with the reason.
    """
    if spec.states:
        raise cannot_be_batched(spec, f"it keeps states ({_named(spec.states)}), which belong to one caller")
    if not spec.inputs:
        raise cannot_be_batched(spec, "it has no input")
    ports = [*(("input", port) for port in spec.inputs), *(("output", port) for port in spec.outputs)]
    for kind, port in ports:
        if reason := _obstacle(port, batching.max_size, is_input=kind == "input"):
            raise cannot_be_batched(spec, f"{kind} '{port.oip_name}' {reason}")


def cannot_be_batched(spec: ModelSpec, reason: str) -> ServingError:
    """Say why a model's rows cannot go together."""
    return ServingError(Code.MODEL_FAILED, f"model '{spec.name}' cannot be batched: {reason}")


def _named(states: tuple[str, ...]) -> str:
    named, others = ", ".join(f"'{state}'" for state in states[:_MOST_NAMED]), len(states) - _MOST_NAMED
    return f"{named} and {others} more" if others > 0 else named


def _obstacle(port: PortSpec, max_size: int, *, is_input: bool) -> str:
    """Say why a port's tensors cannot be put together or split, if so."""
    if port.shape and all(dimension.is_static for dimension in port.shape[1:]):
        shape = tuple(dimension.min for dimension in port.shape)
        if not has_whole_rows(port.element_type, shape):
            return f"has rows of {prod(shape[1:])} {port.element_type.name}, expected rows of whole bytes"
    if port.shape is None:
        return "has a shape of unknown rank, expected a first dimension that counts rows" if is_input else ""
    first = port.shape[0] if port.shape else Dimension(1, 1)
    if first.admits(1) and first.admits(max_size) and not (first.is_static or not port.shape):
        return ""
    obstacle = f"has shape {port.shape_text}, expected a first dimension that admits 1 to {max_size} rows"
    return f"{obstacle}; {_REMEDY}" if is_input and port.shape and first.is_static else obstacle
