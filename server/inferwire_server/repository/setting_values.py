"""How the values of a settings file are read, and the sentence for one that a setting cannot have.

Knows no setting: the modules that read a file know which there are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard, cast

from inferwire_server.core.limits import LARGEST


class UnfitValue(Exception):
    """A value that a setting cannot have, or several. The tables that they lie in add their names as this passes."""

    def __init__(self, value: object, expected: str, *path: str) -> None:
        super().__init__()
        self._unfit: list[tuple[list[str], str]] = [([*path], f"is {shown(value)}, expected {expected}")]

    def lies_in(self, name: str) -> None:
        """Put a name before those that are known."""
        for path, _ in self._unfit:
            path.insert(0, name)

    def and_also(self, other: UnfitValue) -> None:
        """Add the values of another one after the own ones."""
        self._unfit += other._unfit

    def each(self) -> Iterator[tuple[Sequence[str], str]]:
        """Give for each value the names of its tables and its setting, from the outermost, and what is wrong."""
        yield from self._unfit

    def __str__(self) -> str:
        return "; ".join(f"{'.'.join(path)} {sentence}" for path, sentence in self._unfit)


def shown(value: object) -> str:
    """Write a value, unless it is nested too deeply or has more digits than Python writes."""
    try:
        return json.dumps(value, default=str)
    except (RecursionError, ValueError):
        return "too long to be shown"


def items(table: Mapping[str, object], read: Callable[[str, object], Any]) -> dict[str, Any]:
    """Read each value of a table, by its name.

    Raises:
        UnfitValue: Naming all settings whose values they cannot have.
    """
    found: dict[str, Any] = {}
    all_unfit: UnfitValue | None = None
    for name, value in table.items():
        try:
            found[name] = read(name, value)
        except UnfitValue as unfit:
            unfit.lies_in(name)
            if all_unfit is None:
                all_unfit = unfit
            else:
                all_unfit.and_also(unfit)
    if all_unfit is not None:
        raise all_unfit
    return found


def text(value: object, expected: str) -> str:
    """Read text that is not empty."""
    if not isinstance(value, str) or not value:
        raise UnfitValue(value, expected)
    return value


def switch(value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise UnfitValue(value, "true or false")
    return value


def is_number(value: object, least: float, most: float) -> TypeGuard[float]:
    """Tell whether it is a number between these; nan is not, and a whole number may have any number of digits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def is_whole(value: object, least: int, most: int = LARGEST) -> TypeGuard[int]:
    """Tell whether it is a whole number from the least up to the most."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def whole(value: object, least: int, most: int = LARGEST) -> int:
    """Read a whole number from the least up to the most."""
    if not is_whole(value, least, most):
        raise UnfitValue(value, f"a whole number from {least} up to {most}")
    return value


def wholes(value: object, least: int, what: str) -> tuple[int, ...]:
    """Read a list of whole numbers, each from the least up."""
    numbers = cast("list[object]", value) if isinstance(value, list) else None
    if numbers is None or not all(is_whole(number, least) for number in numbers):
        raise UnfitValue(cast("object", value), f"a list of {what} from {least} up to {LARGEST}")
    return tuple(cast("list[int]", numbers))


def choice(*choices: str) -> Callable[[object], str]:
    """Give what reads one of some words."""

    def read(value: object) -> str:
        if value not in choices:
            raise UnfitValue(value, one_of(choices))
        return cast("str", value)

    return read


def one_of(choices: Sequence[str]) -> str:
    """Write that it has to be one of these words."""
    return f"{', '.join(choices[:-1])} or {choices[-1]}"
