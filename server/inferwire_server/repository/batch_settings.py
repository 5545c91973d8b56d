"""Batching in a model's settings: keys of their own, and the compile properties that say the same."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any, cast

from inferwire_server.core.batch_options import BatchOptions
from inferwire_server.core.batch_properties import NAMES, divide
from inferwire_server.errors import ServingError
from inferwire_server.repository.setting_layers import Layer
from inferwire_server.repository.setting_values import LARGEST, UnfitError, is_whole

KEYS = tuple(each.name for each in fields(BatchOptions))


def with_keys_alone(layer: Layer) -> tuple[Layer, list[str]]:
    """Replace the batching properties of a layer by keys, and tell what is wrong with the properties.

    Each layer by itself: a higher one wins over a lower one, in whichever form either says it.
    """
    table = dict(layer.table)
    properties: object = table.get("properties")
    if not isinstance(properties, dict):
        return layer, []
    own = cast("dict[str, Any]", properties)
    try:
        batches, table["properties"] = divide(own)
    except ServingError as error:
        table["properties"] = {}
        return Layer(layer.source, table), [error.message]
    said: dict[str, Any] = {key: value for key, value in asdict(batches).items() if value is not None}
    twice = [
        f"{key} and properties.{NAMES[key]} are both set, expected one of them: they say the same"
        for key in said
        if key in table
    ]
    for key, value in said.items():
        table.setdefault(key, list(value) if key == "preferred_batches" else value)
    return Layer(layer.source, table), twice


def sizes(value: object) -> tuple[int, ...]:
    """Read sizes of batches."""
    items = cast("list[object]", value) if isinstance(value, list) else None
    if items is None or not all(is_whole(item, 1) for item in items):
        raise UnfitError(cast("object", value), f"a list of whole numbers from 1 up to {LARGEST}")
    return tuple(cast("list[int]", items))
