"""Whether a tensor fits a port of a model, with openvino's texts for one that does not."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from inferwire.graph.model_ports import ModelPort
from inferwire.tensors.dense_memory import Dense
from inferwire.tensors.memory import Memory


def as_row_of_one(port: ModelPort, memory: Memory) -> Memory:
    """Give a scalar the shape of a port whose every dimension is 1, without a copy."""
    if memory.shape or not isinstance(memory, Dense) or not port.is_static:
        return memory
    shape = port.first_shape
    if not shape or prod(shape) != 1:
        return memory
    return Dense(memory.element_type, shape, memory.array.reshape(-1), own=False)


def check_input(port: ModelPort, memory: Memory) -> None:
    """Refuse memory of a tensor that cannot be an input of a port, as a RuntimeError."""
    if memory.element_type != port.element_type:
        raise RuntimeError(
            f"ParameterMismatch: Failed to set tensor for input with precision: {memory.element_type.name}, "
            f"since the model input tensor precision is: {port.element_type.name}"
        )
    if not port.fits(memory.shape):
        raise RuntimeError(
            f"Can't set the input tensor with index: {port.index}, because the model input "
            f"(shape={port.shape}) and the tensor (shape={_dotted(memory.shape)}) are incompatible"
        )


def check_output(port: ModelPort, memory: Memory) -> None:
    """Refuse memory of a tensor that cannot be an output of a port, as a RuntimeError."""
    if memory.element_type != port.element_type:
        raise RuntimeError(
            f"ParameterMismatch: Failed to set tensor for output with precision: {memory.element_type.name}, "
            f"if model output tensor precision is: {port.element_type.name}"
        )
    size = prod(memory.shape)
    if not port.fits(memory.shape) and size:
        raise RuntimeError(
            f"Can't set the output tensor with index: {port.index}, because the model output tensor "
            f"(shape={port.shape}) and the current tensor (shape={_dotted(memory.shape)}) are incompatible"
        )
    if port.is_static and size != (expected := prod(port.first_shape)):
        raise RuntimeError(  # "currernt" is how openvino spells it
            f"Can't set the output tensor with index: {port.index}, because the model output size = {expected} "
            f"and the currernt tensor size = {size} are different."
        )


def check_shape(port: ModelPort, shape: tuple[int, ...]) -> None:
    """Refuse a shape that an input does not take, as a RuntimeError, but not the one that a tensor begins with."""
    if port.fits(shape):
        return
    if port.is_static:
        raise RuntimeError(
            "The input tensor size is not equal to the model input type: "
            f"got [{_listed(shape, ',')}] expecting {port.shape}."
        )
    if shape == port.first_shape:
        return
    limits = ", ".join(
        str(low) if low == high else f"{low} - {high if high >= 0 else '?'}" for low, high in port.bounds or ()
    )
    raise RuntimeError(
        f"ParameterMismatch: Can not clone with new dims. Descriptor's shape: {{{limits}}} is "
        f"incompatible with provided dimensions: {{{_listed(shape, ', ')}}}."
    )


def _dotted(shape: Sequence[int]) -> str:
    return f"({_listed(shape, '.')})"


def _listed(shape: Sequence[int], separator: str) -> str:
    return separator.join(map(str, shape))
