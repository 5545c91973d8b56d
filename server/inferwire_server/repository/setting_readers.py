"""Which settings a model may have, and how the value of each is read: `READERS`.

Does not know which file says it, or what it is for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from inferwire_proto.properties import PropertyValue
from inferwire_server.core.limits import LARGEST, MOST_SLOTS
from inferwire_server.core.specs import Dimension, Shape
from inferwire_server.core.versions import VersionPolicy, parse_version_policy
from inferwire_server.errors import ServingError
from inferwire_server.repository.preprocessing_settings import read_input_preprocessing
from inferwire_server.repository.setting_values import (
    UnfitValue,
    choice,
    is_number,
    is_whole,
    items,
    switch,
    text,
    whole,
    wholes,
)

ANY = "any"
"""The shape of an input that takes every length in each of its dimensions."""

_MOST_WEIGHT = 1000
"""The most a model may weigh; the least is one divided by it."""


def _seconds(value: object) -> float:
    if not is_number(value, 0, LARGEST) or value == 0:
        raise UnfitValue(value, f"a number above 0, at most {LARGEST}")
    return float(value)


def _weight(value: object) -> float:
    # With a weight of next to nothing, a run adds so much to a tag that, in a float, what other runs add is lost.
    if not is_number(value, 1 / _MOST_WEIGHT, _MOST_WEIGHT):
        raise UnfitValue(value, f"a number from {1 / _MOST_WEIGHT} up to {_MOST_WEIGHT}")
    return float(value)


def version_policy(value: object) -> VersionPolicy:
    """Read which versions are served."""
    expected = 'a policy: "latest", "latest:2", "all", or versions such as "1,3"'
    try:
        return parse_version_policy(text(value, expected))
    except ServingError as error:
        raise UnfitValue(value, expected) from error


def _table_of(read_item: Callable[[object], Any], expected: str) -> Callable[[object], dict[str, Any]]:
    def read(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise UnfitValue(value, expected)
        return items(cast("dict[str, object]", value), lambda _, item: read_item(item))

    return read


def _property(value: object) -> PropertyValue:
    if isinstance(value, dict):
        return items(cast("dict[str, object]", value), lambda _, item: _property(item))
    if isinstance(value, list):
        return [_property(item) for item in cast("list[object]", value)]
    if isinstance(value, str | bool | int | float):
        return value
    raise UnfitValue(value, "text, a number, true or false, or a list or table of them")


_ROWS = f'up to {LARGEST}, -1 for any, or bounds such as "1..8"'
_SHAPE = f'a list of dimensions: lengths {_ROWS}; or "any" for all of them'


def _shape(value: object) -> Shape | str:
    if value == ANY:
        return ANY
    if not isinstance(value, list):
        raise UnfitValue(value, _SHAPE)
    dimensions = cast("list[object]", value)
    return tuple(_dimension(item, dimensions) for item in dimensions)


def _batch(value: object) -> Dimension:
    try:
        return _dimension(value, [])
    except UnfitValue as error:
        raise UnfitValue(value, f"a number of rows {_ROWS}") from error


def _dimension(item: object, shape: list[object]) -> Dimension:
    if is_whole(item, -1):
        return Dimension(0, None) if item == -1 else Dimension(item, item)
    if isinstance(item, str) and (bounds := re.fullmatch(r"([0-9]{1,10})\.\.([0-9]{1,10})?", item)):
        least, most = int(bounds[1]), int(bounds[2]) if bounds[2] else None
        if least <= (LARGEST if most is None else most) <= LARGEST:
            return Dimension(least, most)
    raise UnfitValue(shape, _SHAPE)


READERS: Mapping[str, Callable[[object], Any]] = {
    "device": lambda value: text(value, "a device such as CPU or AUTO:GPU,CPU"),
    "properties": _table_of(_property, "a table of OpenVINO's properties"),
    "precision": choice("f32", "f16", "bf16"),
    "slots": lambda value: whole(value, 1, MOST_SLOTS),
    "version_policy": version_policy,
    "max_batch": lambda value: whole(value, 0),
    "max_batch_delay_us": lambda value: whole(value, 0),
    "preferred_batches": lambda value: wholes(value, 1, "whole numbers"),
    "priority": lambda value: whole(value, -LARGEST),
    "time_limit_s": _seconds,
    "weight": _weight,
    "batch": _batch,
    "shapes": _table_of(_shape, "a table of inputs' names and shapes"),
    "file": lambda value: text(value, "the name of a model file of a version"),
    "labels": lambda value: text(value, "the name of a file beside this one"),
    "idle_unload_s": _seconds,
    "warm_up": _table_of(lambda value: wholes(value, 0, "lengths"), "a table of inputs' names and shapes"),
    "max_sequences": lambda value: whole(value, 1),
    "sequences_wait": switch,
    "sequence_idle_s": _seconds,
    "preprocessing": _table_of(read_input_preprocessing, "a table of inputs' names, each with a table of its own"),
}
"""The settings there are, and how each is read."""
