"""The tensors of one request: which memory belongs to which port, and what of it travels.

Whether a tensor fits its port is `port_fit`'s business. Knows nothing of executions; its callers make sure that none is
running.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from inferwire.arguments import as_size, incompatible, not_castable
from inferwire.graph.model_ports import ModelPort, ModelPorts
from inferwire.graph.ports import Port
from inferwire.requests.batches import Batch
from inferwire.requests.freight import Freight, KeptOutputs
from inferwire.requests.port_fit import as_row_of_one, check_input, check_output, check_shape
from inferwire.tensors.dense_memory import allocate
from inferwire.tensors.kept_tensors import KeptPart
from inferwire.tensors.lendable_memory import Lendable
from inferwire.tensors.memory import Memory
from inferwire.tensors.remote_memory import RemoteMemory
from inferwire.transport.executions import OutputForm, WireBytes
from inferwire.transport.lent_memory import Lend
from inferwire.transport.protocol import Transport

_NOTHING_KEPT: KeptOutputs = {}


class RequestTensors:
    """The memory behind the tensor of each input and output; users get a new tensor over it each time.

    Attributes:
        ports: The inputs and outputs.
        outputs: The memory of each output, in order.
        by_key: The memory of tensors by the keys that calls have used for them; under None, that of the only input,
            which needs no key. `at` fills it, and finds what is not in it.
    """

    def __init__(self, ports: ModelPorts, lend: Lend) -> None:
        self.ports = ports
        self.outputs: list[Memory] = [_zeros(each) for each in ports.outputs]
        self._inputs: list[Memory | Batch] = [
            Lendable(each.element_type, each.first_shape, lend) for each in ports.inputs
        ]
        self.by_key: dict[int | str | None, Memory] = {}
        self._freight: Freight | None = None
        self._versions: list[tuple[Memory, int]] = []
        self._postpones = False

    def get(self, port: ModelPort) -> Memory:
        """Give the memory of a port's tensor.

        Raises:
            RuntimeError: If it was given as a batch of several.
        """
        memory = (self._inputs if port.is_input else self.outputs)[port.index]
        if isinstance(memory, Batch):
            raise RuntimeError(
                "get_tensor shall not be used together with batched set_tensors/set_input_tensors for port "
                f"'{port.port!r}'"
            )
        return memory

    def input_at(self, index: int | None) -> Memory:
        """Give the memory of an input's tensor; without a position, of the only input's."""
        return self.get(_to_read("input", self.ports.inputs, index))

    def output_at(self, index: int | None) -> Memory:
        """Give the memory of an output's tensor; without a position, of the only output's."""
        return self.outputs[_to_read("output", self.ports.outputs, index).index]

    def at(self, key: int | str | Port | None) -> Memory:
        """Give the memory of the tensor that a call names by `key`; without a key, of the only input's."""
        if isinstance(key, Port):
            return self.get(self.ports.of(key))
        memory = self.get(self.ports.named(key)) if isinstance(key, str) else self.input_at(key)
        self.by_key[key] = memory
        return memory

    def set(self, port: ModelPort, memory: Memory) -> None:
        """Use memory for a port's tensor.

        Raises:
            RuntimeError: If its type or shape does not fit.
        """
        memory = as_row_of_one(port, memory)
        self._forget_memory()
        if port.is_input:
            check_input(port, memory)
            memory.mark_as_input()
            self._inputs[port.index] = memory
        else:
            check_output(port, memory)
            self.outputs[port.index] = memory

    def set_batch(self, port: ModelPort, items: Sequence[Memory]) -> None:
        """Use the memory of several tensors, one item of the batch each, for an input.

        Raises:
            RuntimeError: If there are none, or they do not make a batch of the port.
        """
        if not items:
            raise RuntimeError("set_input_tensors/set_tensors can't be called with empty tensors")
        if len(items) == 1:
            self.set(port, items[0])
        else:
            self._inputs[port.index] = Batch(port, items)
            self._forget_memory()

    def place(self, key: int | str | Port | None, memory: Memory) -> None:
        """Use memory for the tensor that a call names by `key`; without a key, for the only input's."""
        if isinstance(key, str):
            self.set(self.ports.named(key), memory)
        elif isinstance(key, Port):
            self.set(self.ports.of(key), memory)
        else:
            self.set(_to_write("input", self.ports.inputs, key), memory)

    def place_output(self, index: int | None, memory: Memory) -> None:
        """Use memory for an output's tensor; without a position, for the only output's."""
        self.set(_to_write("output", self.ports.outputs, index), memory)

    @property
    def postpones(self) -> bool:
        """Whether outputs that the program has never read stay on the server."""
        return self._postpones

    @postpones.setter
    def postpones(self, postpones: bool) -> None:
        self._postpones = postpones
        self.forget_freight()

    def freight(self, transport: Transport) -> Freight:
        """Give the next execution's freight; the same one again as long as tensors change in nothing but their values.

        Args:
            transport: Calls the server.

        Raises:
            RuntimeError: If a shape does not fit, after an array has reshaped the tensor, or if a remote tensor
                cannot be an output.
        """
        freight = self._freight
        if freight is not None:
            for memory, version in self._versions:
                if memory.version != version:
                    break
            else:
                return freight
        freight = self._make_freight(transport)
        self._keep(freight)
        return freight

    def _make_freight(self, transport: Transport) -> Freight:
        shapes = tuple([each.shape for each in self._inputs])
        for port, shape in zip(self.ports.inputs, shapes, strict=True):
            check_shape(port, shape)
        reads: dict[int, KeptPart] = {}
        buffers: list[WireBytes] = []
        fetches: dict[int, Callable[[], WireBytes]] = {}
        for at, source in enumerate(self._inputs):
            if (part := source.kept_by(transport)) is not None:
                reads[at] = part
            elif (fetch := source.wire_fetcher()) is not None:
                fetches[len(buffers)] = fetch
                buffers.append(b"")
            else:
                buffers.append(source.wire_data())
        reserved = [each.reserve_output(transport, postpone=self._postpones) for each in self.outputs]
        keeps = {at: tensor for at, tensor in enumerate(reserved) if tensor is not None}
        return Freight(shapes, buffers, reads, keeps, fetches=fetches)

    def _keep(self, freight: Freight) -> None:
        """Keep a freight until a tensor changes; a tensor also changes when the server keeps an output for it."""
        self.forget_freight()
        if freight.fetches:
            return
        versions: list[tuple[Memory, int]] = []
        for memory in (*self._inputs, *self.outputs):
            if isinstance(memory, Batch) or memory.version is None:
                return
            versions.append((memory, memory.version))
        self._freight, self._versions = freight, versions

    def forget_freight(self) -> None:
        """Have the next execution's freight made anew, with a header of its own."""
        self._freight, self._versions = None, []

    def _forget_memory(self) -> None:
        """Forget the freight and the memory by keys, because other memory is used for a tensor."""
        self.forget_freight()
        self.by_key.clear()

    def store(self, forms: Sequence[OutputForm], data: Sequence[WireBytes | None], freight: Freight | None) -> None:
        """Load the outputs of an execution into the tensors; those that the server kept stay there.

        Args:
            forms: The outputs' types and shapes.
            data: Their bytes; None for those that the server kept.
            freight: What the execution took along.

        Raises:
            RuntimeError: If a tensor is too small and not its own memory, or was made for a model
                with other outputs.
        """
        outputs = self.outputs
        kept = _NOTHING_KEPT if freight is None else freight.keeps
        if len(forms) != len(outputs):
            raise RuntimeError(f"the server gave {len(forms)} outputs, expected {len(outputs)}")
        for position, (element_type, shape) in enumerate(forms):
            memory = outputs[position]
            content = data[position]
            if memory.element_type is not element_type:
                raise RuntimeError(
                    f"the server gave output {position} as {element_type.name}, expected {memory.element_type.name}"
                )
            if content is None:
                if position not in kept:
                    raise RuntimeError(f"the server kept output {position}, which it was to send")
                memory.take_kept(kept[position].take(memory.element_type, shape))
            elif kept and isinstance(memory, RemoteMemory):
                raise _not_kept(position, element_type.byte_size(shape))
            else:
                memory.load_wire(shape, content)


def _not_kept(position: int, byte_size: int) -> RuntimeError:
    return RuntimeError(
        f"output {position} has {byte_size} bytes, which the server cannot "
        "keep for this client beside what it keeps already; free some remote tensors, or start the server with a "
        "larger --max-session-tensors-mb or --max-tensors-mb"
    )


def _zeros(port: ModelPort) -> Memory:
    memory = allocate(port.element_type, port.first_shape)
    if not port.element_type.is_string:
        memory.write(np.zeros((), memory.element_type.storage_dtype))
    return memory


def _to_read(kind: str, ports: Sequence[ModelPort], index: int | None) -> ModelPort:
    if index is None:
        return _only(f"get_{kind}_tensor()", ports)
    if type(index) is int and 0 <= index < len(ports):  # checked without a call: nearly every inference comes here
        return ports[index]
    at = as_size(index)
    if at is None:
        raise incompatible(f"get_{kind}_tensor", "(index: int) -> Tensor", "() -> Tensor", invoked=(index,))
    if at >= len(ports):
        raise RuntimeError(f"vector::_M_range_check: __n (which is {at}) >= this->size() (which is {len(ports)})")
    return ports[at]


def _to_write(kind: str, ports: Sequence[ModelPort], index: int | None) -> ModelPort:
    if index is None:
        return _only(f"set_{kind}_tensor()", ports)
    if type(index) is int and 0 <= index < len(ports):
        return ports[index]
    at = as_size(index)
    if at is None:
        raise not_castable(index)
    if at >= len(ports):
        raise RuntimeError(
            f"{kind.capitalize()} port for index {at} was not found! The model has only {len(ports)} {kind}s."
        )
    return ports[at]


def _only(function: str, ports: Sequence[ModelPort]) -> ModelPort:
    if len(ports) != 1:
        raise RuntimeError(f"{function} must be called on a function with exactly one parameter.")
    return ports[0]
