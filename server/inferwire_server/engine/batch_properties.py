"""Batching as compile properties: how whoever uploads a model asks for it. OpenVINO does not see them."""

from __future__ import annotations

from dataclasses import replace

from inferwire_proto.properties import Properties, PropertyValue
from inferwire_server.core.model_options import ModelOptions
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.errors import invalid_input

MAX_BATCH = "INFERWIRE_MAX_BATCH"
MAX_BATCH_DELAY_US = "INFERWIRE_MAX_BATCH_DELAY_US"
PREFERRED_BATCHES = "INFERWIRE_PREFERRED_BATCHES"

_OWN = "INFERWIRE_"
_MOST_DIGITS = 18
"""How long a number may be: Python reads and multiplies none of any length."""

_KNOWN = (MAX_BATCH, MAX_BATCH_DELAY_US, PREFERRED_BATCHES)


def read_batching(options: ModelOptions) -> ModelOptions:
    """Move what the properties say of batching into the options' own field.

    Raises:
        ServingError: INVALID_INPUT for a value that is none, or a property that is not known.
    """
    own = {name: value for name, value in options.properties.items() if name.startswith(_OWN)}
    if not own:
        return options
    for name in own:
        if name not in _KNOWN:
            raise invalid_input(f"property {name} is not known, expected one of {', '.join(_KNOWN)}")
    rest = {name: value for name, value in options.properties.items() if name not in own}
    return replace(options, properties=rest, batching=_batching(own))


def _batching(own: Properties) -> Batching | None:
    if MAX_BATCH not in own:
        raise invalid_input(f"property {next(iter(own))} needs {MAX_BATCH}, the largest number of rows in a batch")
    max_size = _number(MAX_BATCH, own[MAX_BATCH])
    if max_size <= 1:
        return None
    delay_us = _number(MAX_BATCH_DELAY_US, own.get(MAX_BATCH_DELAY_US, 0))
    return Batching(max_size, delay_us * 1e-6, _numbers(PREFERRED_BATCHES, own.get(PREFERRED_BATCHES, ())))


def _numbers(name: str, value: PropertyValue) -> tuple[int, ...]:
    if isinstance(value, str):
        return tuple(_number(name, part.strip()) for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple):
        return tuple(_number(name, item) for item in value)
    return (_number(name, value),)


def _number(name: str, value: PropertyValue) -> int:
    """Read a whole number; as text too, as OpenVINO takes all its properties."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**_MOST_DIGITS
    is_text = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS
    if not (is_number or is_text):
        raise invalid_input(f"property {name} is {value!r}, expected a whole number from 0 to {10**_MOST_DIGITS - 1}")
    return int(str(value))
