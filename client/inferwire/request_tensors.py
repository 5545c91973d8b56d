"""The tensors of one request: which belongs to which port, and whether it fits.

Owns openvino's texts for tensors that do not fit. Knows nothing of executions; whoever calls it
has made sure that none is running.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from inferwire.batches import Batch
from inferwire.kept_tensors import KeptPart, KeptTensor
from inferwire.memory import Dense, Memory, allocate
from inferwire.model_ports import ModelPort, ModelPorts
from inferwire.ports import ConstOutput
from inferwire.remote_memory import RemoteMemory
from inferwire.tensor import Tensor
from inferwire.transport.protocol import OutputValue, Transport, WireBytes

KeptInputs: TypeAlias = Mapping[int, KeptPart]
KeptOutputs: TypeAlias = Mapping[int, KeptTensor]

_NONE_KEPT: KeptInputs = {}
_NOTHING_KEPT: KeptOutputs = {}


class RequestTensors:
    """A tensor for each input and output of a model."""

    def __init__(self, ports: ModelPorts) -> None:
        self.ports = ports
        self._inputs = [_first_tensor(each) for each in ports.inputs]
        self._outputs = [_first_tensor(each) for each in ports.outputs]
        self._sources: list[Memory | Batch] = [tensor.memory for tensor in self._inputs]
        self._fitting: tuple[tuple[int, ...], ...] | None = None

    @property
    def inputs(self) -> Sequence[Tensor]:
        """The tensors of the inputs in order.

        Raises:
            RuntimeError: If one of them was given as a batch of several.
        """
        return [self.get(port) for port in self.ports.inputs]

    @property
    def outputs(self) -> Sequence[Tensor]:
        """The tensors of the outputs in order."""
        return self._outputs

    def input_port(self, index: int | None) -> ModelPort:
        """Find an input to read its tensor; without a position, the only one."""
        return _to_read("input", self.ports.inputs, index)

    def output_port(self, index: int | None) -> ModelPort:
        """Find an output to read its tensor; without a position, the only one."""
        return _to_read("output", self.ports.outputs, index)

    def get(self, port: ModelPort) -> Tensor:
        """Give the tensor of a port.

        Raises:
            RuntimeError: If it was given as a batch of several.
        """
        if port.is_input and isinstance(self._sources[port.index], Batch):
            raise RuntimeError(
                "get_tensor shall not be used together with batched set_tensors/set_input_tensors for port "
                f"'{port.port!r}'"
            )
        return (self._inputs if port.is_input else self._outputs)[port.index]

    def set(self, port: ModelPort, tensor: Tensor) -> None:
        """Make a tensor that of a port.

        Raises:
            RuntimeError: If its type or shape does not fit.
        """
        tensor = _as_row_of_one(port, tensor)
        if port.is_input:
            _check_input(port, tensor)
            tensor.memory.feed()
            self._inputs[port.index] = tensor
            self._sources[port.index] = tensor.memory
        else:
            _check_output(port, tensor)
            self._outputs[port.index] = tensor

    def set_batch(self, port: ModelPort, tensors: Sequence[Tensor]) -> None:
        """Make several tensors, one item of the batch each, those of an input.

        Raises:
            RuntimeError: If there are none, or they do not make a batch of the port.
        """
        if not tensors:
            raise RuntimeError("set_input_tensors/set_tensors can't be called with empty tensors")
        if len(tensors) == 1:
            self.set(port, tensors[0])
        else:
            self._sources[port.index] = Batch(port, tensors)

    def tensor_at(self, key: int | str | ConstOutput | None) -> Tensor:
        """Give the tensor that the inputs of a call name by `key`; without one, the only input's."""
        if key is None:
            return self.get(_only("get_input_tensor()", self.ports.inputs))
        if isinstance(key, str):
            return self.get(self.ports.named(key))
        if isinstance(key, ConstOutput):
            return self.get(self.ports.of(key))
        return self.get(self.input_port(key))

    def place(self, key: int | str | ConstOutput | None, tensor: Tensor) -> None:
        """Make a tensor that of the port the inputs of a call name by `key`; see `tensor_at`."""
        if isinstance(key, str):
            self.set(self.ports.named(key), tensor)
        elif isinstance(key, ConstOutput):
            self.set(self.ports.of(key), tensor)
        else:
            self.set(_to_write("input", self.ports.inputs, key), tensor)

    def place_output(self, index: int | None, tensor: Tensor) -> None:
        """Make a tensor that of an output; without a position, of the only one."""
        self.set(_to_write("output", self.ports.outputs, index), tensor)

    def shapes_to_send(self) -> tuple[tuple[int, ...], ...]:
        """Give the inputs' shapes, all of which fit.

        Raises:
            RuntimeError: If one does not, after an array has reshaped it.
        """
        shapes = tuple([each.shape for each in self._sources])
        if shapes != self._fitting:
            for port, shape in zip(self.ports.inputs, shapes, strict=True):
                if not port.fits(shape):
                    _refuse_to_send(port, shape)
            self._fitting = shapes
        return shapes

    def kept_inputs(self, transport: Transport) -> KeptInputs:
        """Give the inputs that the server of a transport has already, by position."""
        kept = _NONE_KEPT
        for at, source in enumerate(self._sources):
            part = source.kept_by(transport)
            if part is not None:
                kept = {**kept, at: part}
        return kept

    def bytes_to_send(self, kept: Container[int] = ()) -> list[WireBytes]:
        """Give the bytes of the inputs that the server does not have in wire form.

        They are views of the tensors' memory wherever possible; batches are joined.
        """
        return [source.wire_data() for at, source in enumerate(self._sources) if at not in kept]

    def reserve(self, transport: Transport, *, postpone: bool) -> KeptOutputs:
        """Give what the server is to keep of the next execution's outputs, by position.

        Args:
            transport: Calls the server.
            postpone: Whether outputs that nobody has ever read are to stay there.

        Raises:
            RuntimeError: If a remote tensor cannot be an output.
        """
        reserved = _NOTHING_KEPT
        for at, tensor in enumerate(self._outputs):
            name = tensor.memory.reserve(transport, postpone=postpone)
            if name is not None:
                reserved = {**reserved, at: name}
        return reserved

    def store(self, outputs: Sequence[OutputValue], kept: KeptOutputs = _NOTHING_KEPT) -> None:
        """Load the outputs of an execution into the tensors; those that the server kept stay there.

        Raises:
            RuntimeError: If a tensor is too small and not its own memory, or was made for a model
                with other outputs.
        """
        if len(outputs) != len(self._outputs):
            raise RuntimeError(f"the server gave {len(outputs)} outputs, expected {len(self._outputs)}")
        for position, element_type, shape, data in outputs:
            memory = self._outputs[position].memory
            if memory.row is not element_type:
                raise RuntimeError(
                    f"the server gave output {position} as {element_type.name}, expected {memory.row.name}"
                )
            if data is not None:
                if kept and isinstance(memory, RemoteMemory):
                    raise _not_kept(position, element_type.byte_size(shape))
                memory.load_wire(shape, data)
            elif position in kept:
                memory.keep(kept[position].take(memory.row, shape))
            else:
                raise RuntimeError(f"the server kept output {position}, which it was to send")


def _not_kept(position: int, byte_size: int) -> RuntimeError:
    return RuntimeError(
        f"output {position} has {byte_size} bytes, which the server cannot "
        "keep for this client beside what it keeps already; free some remote tensors, or start the server with a "
        "larger --max-session-tensors-mb"
    )


def _first_tensor(port: ModelPort) -> Tensor:
    memory = allocate(port.row, port.first_shape)
    if not port.row.is_string:
        memory.write(np.zeros((), memory.row.storage_dtype))
    return Tensor.over(memory)


def _as_row_of_one(port: ModelPort, tensor: Tensor) -> Tensor:
    """Give a scalar the shape of a port whose every dimension is 1; it keeps its memory."""
    memory = tensor.memory
    if memory.shape or not isinstance(memory, Dense) or not port.is_static or prod(port.first_shape) != 1:
        return tensor
    return Tensor.over(Dense(memory.row, port.first_shape, memory.array.reshape(-1), own=False))


def _to_read(kind: str, ports: Sequence[ModelPort], index: int | None) -> ModelPort:
    if index is None:
        return _only(f"get_{kind}_tensor()", ports)
    if index >= len(ports):
        raise RuntimeError(f"vector::_M_range_check: __n (which is {index}) >= this->size() (which is {len(ports)})")
    return ports[index]


def _to_write(kind: str, ports: Sequence[ModelPort], index: int | None) -> ModelPort:
    if index is None:
        return _only(f"set_{kind}_tensor()", ports)
    if index >= len(ports):
        raise RuntimeError(
            f"{kind.capitalize()} port for index {index} was not found! The model has only {len(ports)} {kind}s."
        )
    return ports[index]


def _only(function: str, ports: Sequence[ModelPort]) -> ModelPort:
    if len(ports) != 1:
        raise RuntimeError(f"{function} must be called on a function with exactly one parameter.")
    return ports[0]


def _check_input(port: ModelPort, tensor: Tensor) -> None:
    memory = tensor.memory
    if memory.row != port.row:
        raise RuntimeError(
            f"ParameterMismatch: Failed to set tensor for input with precision: {memory.row.name}, "
            f"since the model input tensor precision is: {port.row.name}"
        )
    if not port.fits(memory.shape):
        raise RuntimeError(
            f"Can't set the input tensor with index: {port.index}, because the model input "
            f"(shape={port.shape}) and the tensor (shape={_dotted(memory.shape)}) are incompatible"
        )


def _check_output(port: ModelPort, tensor: Tensor) -> None:
    memory = tensor.memory
    if memory.row != port.row:
        raise RuntimeError(
            f"ParameterMismatch: Failed to set tensor for output with precision: {memory.row.name}, "
            f"if model output tensor precision is: {port.row.name}"
        )
    if not port.fits(memory.shape) and prod(memory.shape):
        raise RuntimeError(
            f"Can't set the output tensor with index: {port.index}, because the model output tensor "
            f"(shape={port.shape}) and the current tensor (shape={_dotted(memory.shape)}) are incompatible"
        )


def _refuse_to_send(port: ModelPort, shape: tuple[int, ...]) -> None:
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
