"""The tensors that users hold: OpenVINO's interface over `inferwire.tensors.memory`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex, cast, overload

import numpy as np
from numpy.typing import DTypeLike

from inferwire.arguments import Unpicklable, as_sizes, in_order, incompatible, is_array, is_list, openvino_class
from inferwire.graph.foreign_ports import as_port
from inferwire.graph.ports import Port
from inferwire.tensors.dense_memory import allocate
from inferwire.tensors.element_arrays import Array
from inferwire.tensors.memory import Memory, OverMemory, refuse_packed
from inferwire.tensors.tensor_sources import memory_from, string_objects
from inferwire.user_warnings import warn
from inferwire.values.shapes import Coordinate, Shape, Strides
from inferwire.values.types import Type, as_type, type_of


class Tensor(OverMemory, Unpicklable):
    """Elements of one type under a shape. Mirrors `openvino.Tensor`.

    Made from an array (a copy, or the array's own memory with `shared_memory`), from an array, a shape
    and a type (always the array's memory, its bytes read as that type), a list, a type and a shape (memory
    that is not set), a port, another tensor and a region in it (sharing its memory), or a PIL image.

    Types of less than 8 bits and their kin show their packed bytes as a flat array; bf16 shows its
    bits typed as float16; strings are read and written by `str_data` and `bytes_data`.

    Differs from OpenVINO:
    - Memory that is too small for shape and type is refused, where openvino reads past its end.
    - A view over read-only memory stays read-only.
    - Big-endian arrays are converted when copied and refused when shared, where openvino misreads them.
    - `shape` is a copy, and a region keeps its rank.
    - String tensors can be deep-copied.
    - Regions of string tensors hold their own strings, where openvino takes those that follow in memory.
    - Strings of a transposed array are taken in its order, where openvino refuses it or takes others.

    Example:
        >>> tensor = Tensor(np.zeros((1, 3), np.float32))
        >>> tensor
        <Tensor: shape[1,3] type: f32>
        >>> tensor.data[0, 0] = 1

    Raises:
        TypeError: If the arguments fit no overload.
        RuntimeError: For dtypes without an element type, arrays that cannot be shared and regions
            outside the tensor.
        ValueError: For read-only arrays with `shared_memory`.
    """

    __slots__ = ()

    @overload
    def __init__(self, array: Array, shared_memory: bool = False) -> None: ...
    @overload
    def __init__(self, array: Array, shape: Shape | Sequence[SupportsIndex], type: Type = ...) -> None: ...
    @overload
    def __init__(self, list: list[Any]) -> None: ...
    @overload
    def __init__(self, type: Type | DTypeLike, shape: Shape | Sequence[SupportsIndex]) -> None: ...
    @overload
    def __init__(self, port: Port, array: Array = ...) -> None: ...
    @overload
    def __init__(
        self, other: Tensor, begin: Coordinate | Sequence[SupportsIndex], end: Coordinate | Sequence[SupportsIndex]
    ) -> None: ...
    @overload
    def __init__(self, image: object) -> None: ...
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        args = tuple(_known(each) for each in args)
        kwargs = {name: _known(each) for name, each in kwargs.items()}
        if args and isinstance(args[0], Tensor) and len(args) + len(kwargs) == 3:
            args = (args[0].memory, *args[1:])
        elif isinstance(kwargs.get("other"), Tensor):
            kwargs["other"] = kwargs["other"].memory
        self._memory = memory_from(args, kwargs)

    @classmethod
    def over(cls, memory: Memory) -> Tensor:
        """Make a tensor over memory that other tensors may hold too; not in openvino."""
        tensor = object.__new__(cls)
        tensor._memory = memory
        return tensor

    def __copy__(self) -> Tensor:
        return Tensor.over(self._memory)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copied = allocate(self._memory.element_type, self._memory.shape)
        copied.write(self._memory.read())
        return Tensor.over(copied)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: shape{self.shape} type: {self._memory.element_type.name}>"

    @property
    def element_type(self) -> Type:
        """The type of the elements. Mirrors `openvino.Tensor.element_type`."""
        return type_of(self._memory.element_type)

    @property
    def shape(self) -> Shape:
        """The shape, in elements; setting it is `set_shape`. Mirrors `openvino.Tensor.shape`.

        Raises:
            TypeError: On setting what is no shape.
            RuntimeError: On setting one for which shared memory or a region is too small.
        """
        return Shape(self._memory.shape)

    @shape.setter
    def shape(self, shape: Shape | Sequence[SupportsIndex]) -> None:
        self.set_shape(shape)

    @property
    def size(self) -> int:
        """The number of elements. Mirrors `openvino.Tensor.size`."""
        return int(np.prod(self._memory.shape, dtype=np.int64))

    @property
    def byte_size(self) -> int:
        """The bytes of the elements; strings count as the 32 bytes of their C++ objects.

        Mirrors `openvino.Tensor.byte_size`.
        """
        element_type = self._memory.element_type
        return (
            self.size * self.element_type.size if element_type.is_string else element_type.byte_size(self._memory.shape)
        )

    @property
    def strides(self) -> Strides:
        """How many bytes apart neighbours along each axis are. Mirrors `openvino.Tensor.strides`.

        Raises:
            RuntimeError: For types of less than 8 bits.
        """
        refuse_packed(self._memory.element_type)
        return Strides(self._memory.strides)

    @property
    def data(self) -> Array:
        """The elements: a view that writes to the tensor, except for strings, which are copied.

        Mirrors `openvino.Tensor.data`. An array of the tensor's shape and of the dtype that `Type.to_dtype` gives; of
        types of less than 8 bits the packed bytes, in one dimension.

        Example:
            >>> tensor = Tensor(Type.f32, [1, 3])
            >>> tensor.data[:] = 1
            >>> tensor.data
            array([[1., 1., 1.]], dtype=float32)
        """
        if not self._memory.element_type.is_string:
            return self._memory.array.view()
        warn(
            "Data of string type will be copied! Please use dedicated properties "
            "`str_data` and `bytes_data` to avoid confusion while accessing Tensor's contents.",
            RuntimeWarning,
        )
        return self.bytes_data

    @property
    def bytes_data(self) -> Array:
        """Strings as an array of 'S', copied; trailing zeros are lost, as numpy does it.

        Mirrors `openvino.Tensor.bytes_data`.

        Set from a list or an array of as many strings, text as UTF-8.

        Raises:
            RuntimeError: For a tensor of another type, or data that does not fit.
        """
        return np.array(self._strings(), dtype="S").reshape(self._memory.shape)

    @bytes_data.setter
    def bytes_data(self, strings: Array | list[Any]) -> None:
        self._set_strings(strings)

    @property
    def str_data(self) -> Array:
        """Strings as an array of 'U', copied; bytes that are no UTF-8 are replaced. Mirrors `openvino.Tensor.str_data`.

        Set from a list or an array of as many strings.

        Raises:
            RuntimeError: For a tensor of another type, or data that does not fit.
        """
        decoded = [item.decode("utf-8", "replace") for item in self._strings()]
        return np.array(decoded, dtype="U").reshape(self._memory.shape)

    @str_data.setter
    def str_data(self, strings: Array | list[Any]) -> None:
        self._set_strings(strings)

    def set_shape(self, shape: Shape | Sequence[SupportsIndex]) -> None:
        """Take another shape. Mirrors `openvino.Tensor.set_shape`.

        A tensor's own memory grows if it must, and its content is then not set. Shared memory
        and regions change up to the size they were made with.

        Args:
            shape: A length for each dimension, in elements; there may be more dimensions, or fewer, than before.

        Raises:
            TypeError: For what is no shape.
            RuntimeError: If shared memory or a region is too small.
        """
        sizes = as_sizes(shape)
        if sizes is None:
            raise incompatible("set_shape", "(self: Tensor, shape: Shape | Sequence[int])", invoked=(self, shape))
        self._memory.set_shape(sizes)

    @overload
    def copy_from(self, source_tensor: Tensor | OverMemory) -> None: ...
    @overload
    def copy_from(self, source: Array | list[Any]) -> None: ...
    def copy_from(self, *args: Any, **kwargs: Any) -> None:
        """Take the shape and the elements of a tensor, a remote one too, an array or a list.

        Mirrors `openvino.Tensor.copy_from`.

        Args:
            args: A tensor of the same element type, or an array or a list whose dtype is that of the element type.
            kwargs: The same as `source_tensor` or `source`.

        Raises:
            TypeError: For anything else.
            RuntimeError: For another element type, or if the memory is too small and not its own.
        """
        (given,) = in_order(args, kwargs, ("source_tensor",), ("source",)) or (None,)
        is_content = is_array(given) or is_list(given)
        source = Tensor(given) if is_content else as_tensor(given)
        if source is None or (kwargs and is_content is not ("source" in kwargs)):
            signatures = (f"(self: Tensor, {each})" for each in ("source_tensor: Tensor", "source: ndarray | list"))
            raise incompatible("copy_from", *signatures, invoked=(self, *args), keywords=kwargs)
        _copy(source.memory, self._memory)

    def copy_to(self, target_tensor: Tensor | OverMemory) -> None:
        """Give shape and elements to another tensor, or a remote one. Mirrors `openvino.Tensor.copy_to`.

        Raises:
            TypeError: For what is no tensor.
            RuntimeError: As `copy_from`.
        """
        target = as_tensor(target_tensor)
        if target is None:
            raise incompatible("copy_to", "(self: Tensor, target_tensor: Tensor)", invoked=(self, target_tensor))
        _copy(self._memory, target.memory)

    def is_continuous(self) -> bool:
        """Tell whether the elements lie without gaps; false for most regions.

        Mirrors `openvino.Tensor.is_continuous`.
        """
        return self._memory.is_continuous

    def get_element_type(self) -> Type:
        """Give `element_type`."""
        return self.element_type

    def get_shape(self) -> Shape:
        """Give `shape`."""
        return self.shape

    def get_size(self) -> int:
        """Give `size`."""
        return self.size

    def get_byte_size(self) -> int:
        """Give `byte_size`."""
        return self.byte_size

    def get_strides(self) -> Strides:
        """Give `strides`."""
        return self.strides

    def _strings(self) -> list[bytes]:
        if not self._memory.element_type.is_string:
            raise RuntimeError("Tensor's type must be a string!")
        return self._memory.read().reshape(-1).tolist()

    def _set_strings(self, strings: object) -> None:
        given = np.array(strings) if is_list(strings) else strings
        if not is_array(given):
            raise RuntimeError("Invalid data to fill String Tensor!")
        if given.dtype.kind not in "SU":
            raise RuntimeError("Unknown string kind passed to fill the Tensor's data!")
        if given.size != self.size:
            raise RuntimeError("Passed array must have the same size (number of elements) as the Tensor!")
        element_type = self._memory.element_type
        if not element_type.is_string:
            raise RuntimeError(
                f"Tensor data with element type {element_type.name}, is not representable as pointer to string"
            )
        self._memory.write(string_objects(given).reshape(self._memory.shape))


def as_tensor(value: object) -> Tensor | None:
    """Take a tensor, ours, a remote one or one of openvino's over the same memory; None for anything else.

    Strings, and regions with gaps, are copied.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, OverMemory):
        return Tensor.over(value.memory)
    if openvino_class(value) != "Tensor":
        return None
    theirs = cast("Any", value)
    element_type = as_type(theirs.get_element_type()) or Type.dynamic
    if element_type is Type.string:
        return Tensor(theirs.bytes_data)
    return Tensor(np.ascontiguousarray(theirs.data), list(theirs.get_shape()), element_type)


def _known(value: Any) -> Any:
    """Turn a constructor's argument that is openvino's into this SDK's own; leave any other as it is."""
    if not openvino_class(value):
        return value
    known = as_tensor(value)
    return known or as_type(value) or as_port(value) or value


def _copy(source: Memory, target: Memory) -> None:
    if source.element_type != target.element_type:
        raise RuntimeError(
            f"Tensor element types are not equal. (src: {source.element_type.name} != dst: {target.element_type.name})"
        )
    target.load(source.read(), source.shape)
