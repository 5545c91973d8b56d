"""How the values of an `OVAny` are written as text and read from it: as in openvino, which uses C++'s streams.

Unless all of a text is wanted as a str, only its first word is read, and of that only as much as is a number: "1.5"
read as an integer is 1. An empty text is read as "", 0 or False.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from math import isinf
from typing import Any, cast

from inferwire.arguments import is_list_or_tuple
from inferwire.values.enumerations import Choice
from inferwire.values.types import Type

_WORDS = {"1": True, "yes": True, "true": True, "on": True, "0": False, "no": False, "false": False, "off": False}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_HEXADECIMAL = re.compile(r"[+-]?0x([0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(p[+-]?[0-9]+)?", re.IGNORECASE)
_FLOAT = re.compile(r"[+-]?(inf(inity)?|nan|([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?)", re.IGNORECASE)
_INT64 = range(-(2**63), 2**63)
_MOST_DIGITS = 1000
"""The most characters of a whole number that is read: Python refuses to convert thousands of digits."""


def as_text(value: object) -> str:
    """Write a value."""
    match value:
        case None:
            return ""
        case bool():
            return "YES" if value else "NO"
        case float():
            return f"{value:g}"
        case Type():
            return value.type_name
        case Choice():
            return value.name
        case Mapping():
            items = cast("Mapping[str, object]", value)
            return "{" + ",".join(f"{name}:{as_text(items[name])}" for name in sorted(items)) + "}"
        case _ if is_list_or_tuple(value):
            return " ".join(str(int(item)) if isinstance(item, bool) else as_text(item) for item in value)
        case _:
            return str(value)


def read(dtype: type, text: str) -> Any:
    """Read a bool, an int or a float from the first word of a text; as a str, give all of it.

    Raises:
        RuntimeError: If the text does not begin with one.
    """
    if dtype is str:
        return text
    if not text:
        return dtype()
    word = (text.split(maxsplit=1) or [""])[0]
    if dtype is bool:
        return _read_bool(word)
    return _read_int(word) if dtype is int else _read_float(word)


def _read_bool(word: str) -> bool:
    known = _WORDS.get(word.lower())
    if known is None:
        raise RuntimeError(f"Could not convert to bool from string {word.lower()}")
    return known


def _read_int(word: str) -> int:
    number = _INTEGER.match(word)
    if number is None or len(number[0]) > _MOST_DIGITS or int(number[0]) not in _INT64:
        raise RuntimeError(f'Could not convert to: l from string "{word}": stol')
    return int(number[0])


def _read_float(word: str) -> float:
    hexadecimal, decimal = _HEXADECIMAL.match(word), _FLOAT.match(word)
    found = hexadecimal or decimal
    if found is not None:
        with suppress(OverflowError):
            value = float.fromhex(found[0]) if hexadecimal is not None else float(found[0])
            if not isinf(value) or "inf" in found[0].lower():
                return value
    raise RuntimeError(f'Could not convert to: d from string "{word}": stod')
