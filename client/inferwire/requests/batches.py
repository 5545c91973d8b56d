"""Several tensors as one input: checked when they are set, joined when they are sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from inferwire.graph.model_ports import ModelPort
from inferwire.tensors.element_arrays import Array, array_to_wire
from inferwire.tensors.memory import Memory, refuse_packed
from inferwire.transport.executions import WireBytes
from inferwire.transport.protocol import Transport

_FUNCTIONS = "set_input_tensors/set_tensors"


class Batch:
    """The tensors of one input, one item of its batch each. They are read anew for every execution.

    Raises:
        RuntimeError: For tensors that do not make a batch of the port.
    """

    def __init__(self, port: ModelPort, items: Sequence[Memory]) -> None:
        first = items[0]
        refuse_packed(port.element_type)
        length = port.bounds[0] if port.bounds else (0, -1)
        if length[0] == length[1] != len(items):
            raise RuntimeError(
                f"{_FUNCTIONS} error. Input shape {port.shape} batch {length[0]} doesn't match with total blobs "
                f"count: {len(items)}"
            )
        for each in items:
            _check_item(port, each, first)
        self._items = tuple(items)
        self.shape = (len(items), *first.shape[1:])

    def wire_data(self) -> WireBytes:
        """Join the tensors' elements, as inferwire's wire carries them."""
        return self._join([item.read() for item in self._items])

    def wire_fetcher(self) -> Callable[[], WireBytes] | None:
        """Give a function that fetches and joins the elements if a server has some of them; None if all are here."""
        fetches = [item.fetcher(share=False) for item in self._items]
        if not any(fetches):
            return None
        reads = [fetch or item.read().view for fetch, item in zip(fetches, self._items, strict=True)]
        return lambda: self._join([read() for read in reads])

    def kept_by(self, transport: Transport) -> None:
        """Where the server has the elements as one tensor: nowhere, because they are joined here."""
        del transport

    def _join(self, parts: Sequence[Array]) -> WireBytes:
        return array_to_wire(self._items[0].element_type, np.concatenate(parts))


def _check_item(port: ModelPort, item: Memory, first: Memory) -> None:
    items = item.shape[0] if item.shape else 0
    if items != 1:
        raise RuntimeError(f"{_FUNCTIONS}. Tensors shall represent one item in a batch, {items} provided")
    if item.element_type != port.element_type:
        raise RuntimeError(
            f"ParameterMismatch: Failed to set tensor for input with precision: {item.element_type.name}, "
            f"since the model input tensor precision is: {port.element_type.name}"
        )
    if item.shape != first.shape:
        raise RuntimeError(
            f"{_FUNCTIONS} error. Tensor with shape {list(item.shape)} is not compatible with batched tensor of shape "
            f"{list(first.shape)}"
        )
