"""Element types as OpenVINO's users know them, read from the contract's one table.

Owns `Type`; how an element looks in memory stays in `inferwire_proto.element_types`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from inferwire.arguments import Unpicklable, incompatible, openvino_class
from inferwire_proto.element_types import BY_NAME, ELEMENT_TYPES, ElementType

_STRING_BITS = 256
"""What OpenVINO reports for the C++ string object behind an element."""

_SPOKEN: dict[str, str] = {
    "boolean": "char",
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "double64",
    "nf4": "nfloat4",
}

_NAMES = (
    *("dynamic", "boolean", "bf16", "f16", "f32", "f64", "i4", "i8", "i16", "i32", "i64", "u1", "u2", "u3", "u4", "u6"),
    *("u8", "u16", "u32", "u64", "nf4", "f8e4m3", "f8e5m2", "string", "f4e2m1", "f8e8m0"),
)
_ORDER = {name: number for number, name in enumerate(_NAMES)}
"""How openvino numbers the types. The number is a type's hash there, and so here: equal types need equal hashes."""

_FLOATS = {"bf16", "f16", "f32", "f64", "f8e4m3", "f8e5m2", "f8e8m0", "f4e2m1"}
_QUANTIZED = {"f8e4m3", "f8e5m2", "f8e8m0", "f4e2m1", "nf4", "i4", "i8", "i32", "u8"}
_UNSIGNED = {"dynamic", "nf4", "string"}

_ROW_BY_DTYPE: dict[np.dtype[Any], ElementType] = {
    row.storage: row for row in ELEMENT_TYPES if row.storage is not None and row.oip is not None and row.name != "bf16"
}


class Type(Unpicklable):
    """The type of a tensor's elements. Mirrors `openvino.Type`.

    The types are attributes of the class, `Type.f32`; there is one object of each. The
    constructor finds the type of a numpy dtype.

    Example:
        >>> Type(np.float32) == Type.f32
        True
        >>> Type.u4.bitwidth
        4

    Raises:
        TypeError: For what numpy cannot read as a dtype.
        RuntimeError: For a dtype that no element type has, as complex64.
    """

    __slots__ = ("__weakref__", "_name")

    boolean: ClassVar[Type]
    bf16: ClassVar[Type]
    dynamic: ClassVar[Type]
    f16: ClassVar[Type]
    f32: ClassVar[Type]
    f4e2m1: ClassVar[Type]
    f64: ClassVar[Type]
    f8e4m3: ClassVar[Type]
    f8e5m2: ClassVar[Type]
    f8e8m0: ClassVar[Type]
    i16: ClassVar[Type]
    i32: ClassVar[Type]
    i4: ClassVar[Type]
    i64: ClassVar[Type]
    i8: ClassVar[Type]
    nf4: ClassVar[Type]
    string: ClassVar[Type]
    u1: ClassVar[Type]
    u16: ClassVar[Type]
    u2: ClassVar[Type]
    u3: ClassVar[Type]
    u32: ClassVar[Type]
    u4: ClassVar[Type]
    u6: ClassVar[Type]
    u64: ClassVar[Type]
    u8: ClassVar[Type]

    _name: str

    def __new__(cls, dtype: DTypeLike) -> Type:
        """Find the type of a numpy dtype, or of what numpy takes for one."""
        known = as_type(dtype)
        if known is not None:
            return known
        return _of_dtype(np.dtype(dtype))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"'Type' object has no attribute {name!r} that can be set")

    def __repr__(self) -> str:
        return f"<Type: '{_spoken(self._name)}'>"

    def __eq__(self, other: object) -> bool:
        return self is as_type(other)

    def __hash__(self) -> int:
        return _ORDER[self._name]

    @property
    def type_name(self) -> str:
        """The short name, as "f32". Mirrors `openvino.Type.type_name`."""
        return self._name

    @property
    def bitwidth(self) -> int:
        """Bits of one element; 256 for strings, 0 for the dynamic type. Mirrors `openvino.Type.bitwidth`."""
        row = BY_NAME.get(self._name)
        return 0 if row is None else row.bits or _STRING_BITS

    @property
    def size(self) -> int:
        """Bytes of one element, at least 1; 0 for the dynamic type. Mirrors `openvino.Type.size`."""
        return (self.bitwidth + 7) // 8

    @property
    def real(self) -> bool:
        """Whether elements are floating-point numbers. Mirrors `openvino.Type.real`."""
        return self._name in _FLOATS

    @property
    def integral(self) -> bool:
        """Whether elements are anything but floating-point numbers. Mirrors `openvino.Type.integral`."""
        return not self.real

    @property
    def integral_number(self) -> bool:
        """Whether elements are integral but not booleans. Mirrors `openvino.Type.integral_number`."""
        return self.integral and self._name != "boolean"

    @property
    def signed(self) -> bool:
        """Whether OpenVINO counts the type as signed. Mirrors `openvino.Type.signed`."""
        return not (self._name.startswith("u") or self._name in _UNSIGNED)

    @property
    def quantized(self) -> bool:
        """Whether quantised models use the type. Mirrors `openvino.Type.quantized`."""
        return self._name in _QUANTIZED

    def is_static(self) -> bool:
        """Tell whether the type is known. Mirrors `openvino.Type.is_static`."""
        return self._name != "dynamic"

    def is_dynamic(self) -> bool:
        """Tell whether the type is not known. Mirrors `openvino.Type.is_dynamic`."""
        return self._name == "dynamic"

    def is_real(self) -> bool:
        """Give `real`."""
        return self.real

    def is_integral(self) -> bool:
        """Give `integral`."""
        return self.integral

    def is_integral_number(self) -> bool:
        """Give `integral_number`."""
        return self.integral_number

    def is_signed(self) -> bool:
        """Give `signed`."""
        return self.signed

    def is_quantized(self) -> bool:
        """Give `quantized`."""
        return self.quantized

    def get_size(self) -> int:
        """Give `size`."""
        return self.size

    def get_bitwidth(self) -> int:
        """Give `bitwidth`."""
        return self.bitwidth

    def get_type_name(self) -> str:
        """Give `type_name`."""
        return self._name

    def to_string(self) -> str:
        """Give `type_name`."""
        return self._name

    def to_dtype(self) -> np.dtype[Any]:
        """Give the numpy dtype of a tensor's data; packed types show bytes. Mirrors `openvino.Type.to_dtype`.

        Raises:
            IndexError: For the dynamic type.
        """
        row = BY_NAME.get(self._name)
        if row is None:
            raise IndexError("map::at: the dynamic type has no numpy dtype")
        return np.dtype("S") if row.storage is None else row.storage

    def compatible(self, other: Type) -> bool:
        """Tell whether the two are equal or one of them is dynamic. Mirrors `openvino.Type.compatible`."""
        return self.merge(_checked("compatible", self, other)) is not None

    def merge(self, other: Type) -> Type | None:
        """Give the known one of two compatible types, None if they differ. Mirrors `openvino.Type.merge`."""
        given = _checked("merge", self, other)
        if self.is_dynamic() or self is given:
            return given
        return self if given.is_dynamic() else None


def as_type(value: object) -> Type | None:
    """Take a type, ours or openvino's; None for anything else."""
    if isinstance(value, Type):
        return value
    # An enumeration in openvino's properties is named Type, too.
    name = getattr(value, "get_type_name", None) if openvino_class(value) == "Type" else None
    return None if name is None else getattr(Type, name(), None)  # a newer openvino may have more


def element_type_of(element_type: Type) -> ElementType:
    """Give the contract's element type for a type.

    Raises:
        RuntimeError: For the dynamic type, which nothing can hold.
    """
    row = BY_NAME.get(element_type.type_name)
    if row is None:
        raise RuntimeError("Check 'm_element_type.is_static()' failed: no tensor has the dynamic type")
    return row


def type_of(element_type: ElementType) -> Type:
    """Give the type for one of the contract's element types."""
    return getattr(Type, element_type.name)


def _of_dtype(dtype: np.dtype[Any]) -> Type:
    if dtype.kind in "SU":
        return Type.string
    row = _ROW_BY_DTYPE.get(dtype.newbyteorder("<"))
    if row is None:
        raise RuntimeError(f"Unsupported data type: {dtype}")
    return type_of(row)


def _spoken(name: str) -> str:
    if name[0] == "i" or (name[0] == "u" and name[1:].isdigit()):
        return f"{'int' if name[0] == 'i' else 'uint'}{name[1:]}_t"
    return _SPOKEN.get(name, name)


def _checked(function: str, owner: Type, value: object) -> Type:
    known = as_type(value)
    if known is None:
        raise incompatible(function, "(self: Type, other: Type)", invoked=(owner, value))
    return known


for _type_name in ("dynamic", *BY_NAME):
    _made = object.__new__(Type)
    object.__setattr__(_made, "_name", _type_name)
    setattr(Type, _type_name, _made)
