"""Batching as compile properties, the form for those who can give properties alone. OpenVINO does not see them."""

from __future__ import annotations

from typing import NamedTuple

from inferwire_proto.properties import Properties, PropertyValue
from inferwire_server.core.batch_options import BatchOptions
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.errors import invalid_input

MAX_BATCH = "INFERWIRE_MAX_BATCH"
MAX_BATCH_DELAY_US = "INFERWIRE_MAX_BATCH_DELAY_US"
PREFERRED_BATCHES = "INFERWIRE_PREFERRED_BATCHES"

_OWN = "INFERWIRE_"
_LARGEST = 2**31 - 1

NAMES = {
    "max_batch": MAX_BATCH,
    "max_batch_delay_us": MAX_BATCH_DELAY_US,
    "preferred_batches": PREFERRED_BATCHES,
}
"""The properties by what they are called elsewhere."""


class Divided(NamedTuple):
    """Properties, and what they said of batching."""

    batches: BatchOptions
    properties: Properties


def divide(properties: Properties) -> Divided:
    """Take what properties say of batching out of them.

    Raises:
        ServingError: INVALID_INPUT for a value that is none, or a property that is not known.
    """
    own = {name: value for name, value in properties.items() if name.startswith(_OWN)}
    for name in own:
        if name not in NAMES.values():
            raise invalid_input(f"property {name} is not known, expected one of {', '.join(NAMES.values())}")
    batches = BatchOptions(
        _number(MAX_BATCH, own[MAX_BATCH]) if MAX_BATCH in own else None,
        _number(MAX_BATCH_DELAY_US, own[MAX_BATCH_DELAY_US]) if MAX_BATCH_DELAY_US in own else None,
        _numbers(PREFERRED_BATCHES, own[PREFERRED_BATCHES]) if PREFERRED_BATCHES in own else None,
    )
    return Divided(batches, {name: value for name, value in properties.items() if name not in own})


def read_batching(properties: Properties) -> tuple[Batching | None, Properties]:
    """Read how jobs are put together where properties alone say so, and give the other ones.

    Raises:
        ServingError: INVALID_INPUT as `divide`, or for what does not go together.
    """
    batches, rest = divide(properties)
    if batches.max_batch is None:
        for name in (MAX_BATCH_DELAY_US, PREFERRED_BATCHES):
            if name in properties:
                raise invalid_input(f"property {name} needs {MAX_BATCH}, the largest number of rows in a batch")
    return batches.batching(), rest


def _numbers(name: str, value: PropertyValue) -> tuple[int, ...]:
    if isinstance(value, str):
        return tuple(_number(name, part.strip()) for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple):
        return tuple(_number(name, item) for item in value)
    return (_number(name, value),)


def _number(name: str, value: PropertyValue) -> int:
    """Read a whole number; as text too, as OpenVINO takes all its properties."""
    is_text = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(_LARGEST))
    number = int(str(value)) if is_text else value
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _LARGEST:
        return number
    raise invalid_input(f"property {name} is {_shown(value)}, expected a whole number from 0 up to {_LARGEST}")


def _shown(value: object) -> str:
    """Write a value, unless it is nested too deeply or has more digits than Python writes."""
    try:
        return repr(value)
    except (RecursionError, ValueError):
        return "too long to be shown"
