"""One dimension of a shape that may not be known in full.

Owns `Dimension`, `Symbol` and the parsing of their text; lists of dimensions are in
`inferwire.values.partial_shape`.
"""

from __future__ import annotations

from typing import Any, SupportsIndex, cast, overload

from inferwire.arguments import INT64_MAX, Unpicklable, as_integer, in_order, incompatible, openvino_class, size_in

_SIGNATURES = (
    "Dimension()",
    "Dimension(dimension: int)",
    "Dimension(min_dimension: int, max_dimension: int)",
    "Dimension(str: str)",
)
_FORMS = ((), ("dimension",), ("min_dimension", "max_dimension"), ("str",))


class Symbol(Unpicklable):
    """A name that dimensions share when they are always equal. Mirrors `openvino.Symbol`.

    A symbol equals itself only.
    """

    __slots__ = ("__weakref__",)


class Dimension(Unpicklable):
    """A length, a range of lengths, or no known length at all. Mirrors `openvino.Dimension`.

    `Dimension(3)` is static, `Dimension(1, 8)` a range, `Dimension(1, -1)` has no upper bound, and
    `Dimension()` as `Dimension(-1)` may be anything. Strings are read as openvino prints them:
    "3", "?", "1..8", "..8", "1..".

    Differs from OpenVINO: a string with a number over 2**63 - 1 is refused, where openvino reads 0 or no bound.

    Example:
        >>> Dimension(1, 8)
        <Dimension: 1..8>
        >>> Dimension("3") == 3
        True

    Raises:
        TypeError: For arguments that are no integers, or more than two.
        RuntimeError: For a string that is no dimension.
    """

    __slots__ = ("__weakref__", "_max", "_min", "_symbol")

    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, dimension: SupportsIndex) -> None: ...
    @overload
    def __init__(self, min_dimension: SupportsIndex, max_dimension: SupportsIndex) -> None: ...
    @overload
    def __init__(self, str: str) -> None: ...
    def __init__(self, *args: Any, **keywords: Any) -> None:
        given = in_order(args, keywords, *_FORMS)
        is_text = given is not None and len(given) == 1 and isinstance(given[0], str)
        if given is None or (keywords and len(given) == 1 and is_text is not ("str" in keywords)):
            raise incompatible("__init__", *_SIGNATURES, invoked=args, keywords=keywords)
        if not given:
            low, high = 0, INT64_MAX
        elif is_text:
            low, high = _parse(given[0].strip())
        else:
            low, high = _bounds(given)
        self._min, self._max = _interval(low, high)
        self._symbol: Symbol | None = None

    @staticmethod
    def dynamic() -> Dimension:
        """Make a dimension of which nothing is known."""
        return Dimension()

    def __repr__(self) -> str:
        return f"<Dimension: {self}>"

    def __str__(self) -> str:
        if self.is_static:
            return str(self._min)
        if self._min == 0 and self._max == INT64_MAX:
            return "?"
        return f"{self._min or ''}..{'' if self._max == INT64_MAX else self._max}"

    def __len__(self) -> int:
        return self.get_length()

    def __bool__(self) -> bool:
        return len(self) > 0

    def __eq__(self, other: object) -> bool:
        dimension = as_dimension(other)
        if dimension is not None:
            return (self._min, self._max) == (dimension._min, dimension._max)
        number = as_integer(other)
        if number is None:
            return NotImplemented
        return abs(number) <= INT64_MAX and self == Dimension(number)

    @property
    def is_static(self) -> bool:
        """Whether the length is known. Mirrors `openvino.Dimension.is_static`."""
        return self._min == self._max

    @property
    def is_dynamic(self) -> bool:
        """Whether the length is not known. Mirrors `openvino.Dimension.is_dynamic`."""
        return not self.is_static

    @property
    def min_length(self) -> int:
        """The smallest length. Mirrors `openvino.Dimension.min_length`."""
        return self._min

    @property
    def max_length(self) -> int:
        """The largest length, -1 if there is no bound. Mirrors `openvino.Dimension.max_length`."""
        return -1 if self._max == INT64_MAX else self._max

    def get_length(self) -> int:
        """Give the length. Mirrors `openvino.Dimension.get_length`.

        Raises:
            RuntimeError: If it is not known.
        """
        if self.is_dynamic:
            raise RuntimeError("Cannot get length of dynamic dimension")
        return self._min

    def get_min_length(self) -> int:
        """Give `min_length`."""
        return self._min

    def get_max_length(self) -> int:
        """Give `max_length`."""
        return self.max_length

    def compatible(self, dim: Dimension) -> bool:
        """Tell whether some length fits both. Mirrors `openvino.Dimension.compatible`."""
        low, high = _interval_of("compatible", self, dim)
        return max(self._min, low) <= min(self._max, high)

    def refines(self, dim: Dimension) -> bool:
        """Tell whether every length of this one fits the other. Mirrors `openvino.Dimension.refines`."""
        low, high = _interval_of("refines", self, dim)
        return low <= self._min and self._max <= high

    def relaxes(self, dim: Dimension) -> bool:
        """Tell whether every length of the other fits this one. Mirrors `openvino.Dimension.relaxes`."""
        low, high = _interval_of("relaxes", self, dim)
        return self._min <= low and high <= self._max

    def same_scheme(self, dim: Dimension) -> bool:
        """Tell whether both are dynamic, or both static and equal. Mirrors `openvino.Dimension.same_scheme`."""
        low, high = _interval_of("same_scheme", self, dim)
        return (self._min, self._max) == (low, high) or (self.is_dynamic and low != high)

    def has_symbol(self) -> bool:
        """Tell whether a symbol was set. Mirrors `openvino.Dimension.has_symbol`."""
        return self._symbol is not None

    def get_symbol(self) -> Symbol | None:
        """Give the symbol, None if there is none. Mirrors `openvino.Dimension.get_symbol`."""
        return self._symbol

    def set_symbol(self, symbol: Symbol) -> None:
        """Set the symbol. Symbols do not take part in comparisons. Mirrors `openvino.Dimension.set_symbol`.

        Raises:
            TypeError: For what is no symbol.
        """
        if not isinstance(symbol, Symbol):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise incompatible("set_symbol", "(self: Dimension, symbol: Symbol)", invoked=(self, symbol))
        self._symbol = symbol

    def to_string(self) -> str:
        """Give the text that `str` gives, as "1..8". Mirrors `openvino.Dimension.to_string`."""
        return str(self)


def as_dimension(value: object) -> Dimension | None:
    """Take a dimension, ours or openvino's; None for anything else."""
    if isinstance(value, Dimension):
        return value
    if openvino_class(value) != "Dimension":
        return None
    theirs = cast("Any", value)
    return Dimension(theirs.get_min_length(), theirs.get_max_length())


def fields_of(text: str) -> list[str]:
    """Split "[1, 3]" or "1,3" into its fields, without their spaces.

    Raises:
        RuntimeError: If a field is empty.
    """
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1].strip()
    if not inner:
        return []
    fields = [field.strip() for field in inner.split(",")]
    if "" in fields:
        raise RuntimeError(f'Cannot get vector of dimensions! "{inner}" is incorrect')
    return fields


def _bounds(given: tuple[object, ...]) -> tuple[int, int]:
    ranged = len(given) == 2
    numbers = [as_integer(item) for item in given]
    low, high = numbers[0], numbers[-1]
    whole = low is not None and high is not None and max(abs(low), abs(high)) <= INT64_MAX
    if low is None or high is None or not whole:
        raise incompatible("__init__", *_SIGNATURES, invoked=given)
    if ranged:
        return low, high
    return (0, INT64_MAX) if low == -1 else (low, max(low, 0))


def _interval(low: int, high: int) -> tuple[int, int]:
    """Put bounds into range. If they cross, the dimension may have any length, as in openvino."""
    low, high = max(low, 0), INT64_MAX if high == -1 else high
    return (low, high) if low <= high else (0, INT64_MAX)


def _parse(text: str) -> tuple[int, int]:
    if text in ("?", "-1"):
        return 0, INT64_MAX
    if ".." in text:
        before, _, after = text.partition("..")
        low, high = _digits(before, "min bound", 0), _digits(after, "max bound", INT64_MAX)
        return (low, high) if high >= 0 else (0, INT64_MAX)
    length = max(_digits(text, "dimension", 0), 0)
    return length, length


def _digits(text: str, what: str, missing: int) -> int:
    if not text:
        return missing
    digits = text.removeprefix("-")
    number = size_in(digits) if digits else None
    if number is None or number > INT64_MAX:
        raise RuntimeError(f'Cannot parse {what}: "{text}"')
    return number if digits is text else -number


def _interval_of(function: str, owner: Dimension, value: object) -> tuple[int, int]:
    dimension = as_dimension(value)
    if dimension is None:
        raise incompatible(function, "(self: Dimension, dim: Dimension)", invoked=(owner, value))
    return dimension.min_length, INT64_MAX if dimension.max_length < 0 else dimension.max_length
