"""Names of a tensor's dimensions: `Layout`."""

from __future__ import annotations

from inferwire.arguments import Unpicklable, incompatible, openvino_class
from inferwire.values.partial_shape import PartialShape

_SCALAR = "**SCALAR**"
_GAP = "..."
_ALIASES = {"BATCH": "N", "B": "N", "CHANNELS": "C", "HEIGHT": "H", "WIDTH": "W", "DEPTH": "D"}


class Layout(Unpicklable):
    """The names of a tensor's dimensions, which say what each of them is. Mirrors `openvino.Layout`.

    Read from "NCHW", with one letter for each dimension, or from "[n,channels,h,w]", with any names. "?"
    stands for a dimension without a name, "..." for any number of them. Names are case-insensitive;
    channels, depth, height and width are the same as their first letters, and batch and B are N.

    Example:
        >>> Layout("NCHW").get_index_by_name("C")
        1
        >>> Layout("N...C").get_index_by_name("C")
        -1

    Raises:
        TypeError: For what is no string.
        RuntimeError: For a string that is no layout.
    """

    __slots__ = ("__weakref__", "_names")

    def __init__(self, layout_str: str = _GAP) -> None:
        self._names = _parse(layout_str)

    @staticmethod
    def scalar() -> Layout:
        """Make the layout of a tensor without dimensions."""
        return Layout(_SCALAR)

    def __repr__(self) -> str:
        return f"<Layout: {self}>"

    def __str__(self) -> str:
        return _SCALAR if self._names == (_SCALAR,) else f"[{','.join(self._names)}]"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) or openvino_class(other) == "Layout":
            other = Layout(str(other))
        return self._names == other._names if isinstance(other, Layout) else NotImplemented

    @property
    def empty(self) -> bool:
        """Whether the layout says nothing: it is "...". Mirrors `openvino.Layout.empty`."""
        return self._names == (_GAP,)

    def has_name(self, dimension_name: str) -> bool:
        """Tell whether a dimension has this name. Mirrors `openvino.Layout.has_name`."""
        return _canonical(_text("has_name", self, dimension_name)) in self._dimensions()

    def get_index_by_name(self, dimension_name: str) -> int:
        """Give the position of a dimension; if it comes after "...", a negative one that counts from the end.

        Mirrors `openvino.Layout.get_index_by_name`.

        Raises:
            TypeError: For what is no string.
            RuntimeError: If no dimension has this name.
        """
        name = _canonical(_text("get_index_by_name", self, dimension_name))
        if name not in self._dimensions():
            raise RuntimeError(f"{dimension_name} dimension index is not defined")
        index = self._names.index(name)
        return index - len(self._names) if _GAP in self._names[:index] else index

    def to_string(self) -> str:
        """Give the text that `str` gives, as "[N,C,H,W]". Mirrors `openvino.Layout.to_string`."""
        return str(self)

    def _dimensions(self) -> tuple[str, ...]:
        return tuple(name for name in self._names if name not in (_GAP, "?", _SCALAR))


def as_layout(value: object) -> Layout | None:
    """Take a layout, ours or openvino's; None for anything else."""
    if isinstance(value, Layout):
        return value
    return Layout(str(value)) if openvino_class(value) == "Layout" else None


def fits(layout: Layout, shape: PartialShape) -> bool:
    """Tell whether a layout can have as many dimensions as a shape: an empty one and a dynamic rank always can."""
    if layout.empty or shape.rank.is_dynamic:
        return True
    names = _parse(str(layout))
    if _GAP in names:
        return len(names) - 1 <= len(shape)
    return len(shape) == (0 if names == (_SCALAR,) else len(names))


def _parse(layout: object) -> tuple[str, ...]:
    if not isinstance(layout, str):
        raise incompatible("__init__", "Layout()", "Layout(layout_str: str)", invoked=(layout,))
    text = layout.strip()
    if text == _SCALAR:
        return (_SCALAR,)
    bracketed = text.startswith("[") and text.endswith("]")
    names = _listed(text) if bracketed else _lettered(text or _GAP)
    named = [name for name in names if name not in (_GAP, "?")]
    for name in named:
        if named.count(name) > 1:
            raise RuntimeError(f"Dimension ({name}) is defined multiple times in layout")
    return tuple(names)


def _listed(text: str) -> list[str]:
    if len(text) <= 2:
        raise RuntimeError("Cannot parse ov::Layout from an empty string")
    fields = [field.strip() for field in text[1:-1].split(",")]
    if len(fields) > 1 and not fields[-1]:
        fields.pop()
    gaps = 0
    names: list[str] = []
    for field in fields:
        gaps += field == _GAP
        names.append(field if field == "?" or (field == _GAP and gaps == 1) else _checked(field))
    return names


def _lettered(text: str) -> list[str]:
    before, gap, after = text.partition(_GAP)
    if _GAP in after:
        raise RuntimeError("Multiple ... are not allowed")
    if "." in before + after:
        raise RuntimeError("Undefined number of dimensions shall have ...")
    letters = [[name if name == "?" else _checked(name) for name in part] for part in (before, after)]
    return [*letters[0], *([gap] if gap else []), *letters[1]]


def _checked(name: str) -> str:
    if not name:
        raise RuntimeError("Layout dimension name can't be empty")
    if not all(each == "_" or (each.isascii() and each.isalnum()) for each in name):
        raise RuntimeError(f"Layout name is invalid ({name}). Only english letters, digits and _ is allowed")
    if not name.strip("_"):
        raise RuntimeError(f"Layout name is invalid ({name}). Name shall have alphanumeric characters")
    return _canonical(name)


def _text(function: str, owner: Layout, value: object) -> str:
    if not isinstance(value, str):
        raise incompatible(function, "(self: Layout, dimension_name: str)", invoked=(owner, value))
    return value


def _canonical(name: str) -> str:
    upper = name.upper()
    return _ALIASES.get(upper, upper)
