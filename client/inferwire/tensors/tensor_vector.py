"""Tensors in a row: `TensorVector`."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence
from typing import Any, SupportsIndex, overload

from inferwire.arguments import Unpicklable, incompatible
from inferwire.tensors.tensor import Tensor, as_tensor


class TensorVector(Unpicklable, MutableSequence[Tensor]):
    """A list of tensors, as openvino's functions take it. Mirrors `openvino.TensorVector`.

    Example:
        >>> request.set_input_tensors(TensorVector([Tensor(first), Tensor(second)]))

    Raises:
        RuntimeError: For what is no tensor; TypeError if it is put in later.
    """

    def __init__(self, tensors: Iterable[Tensor] = ()) -> None:
        self._tensors = [_cast(each) for each in tensors]

    def __repr__(self) -> str:
        return f"<TensorVector: {self._tensors}>"

    def __bool__(self) -> bool:
        return bool(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> TensorVector: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Tensor | TensorVector:
        found = self._tensors[index]
        return TensorVector(found) if isinstance(found, list) else found

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            self._tensors[index] = [_tensor(each) for each in value]
        else:
            self._tensors[index] = _tensor(value)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        del self._tensors[index]

    def insert(self, index: SupportsIndex, value: Tensor) -> None:
        """Put a tensor before a position. Mirrors `openvino.TensorVector.insert`."""
        self._tensors.insert(index, _tensor(value))


def _cast(value: object) -> Tensor:
    tensor = as_tensor(value)
    if tensor is None:
        raise RuntimeError(f"Unable to cast Python instance of type {type(value)} to ov::Tensor")
    return tensor


def _tensor(value: object) -> Tensor:
    tensor = as_tensor(value)
    if tensor is None:
        raise incompatible("append", "(self: TensorVector, x: Tensor)", invoked=(value,))
    return tensor
