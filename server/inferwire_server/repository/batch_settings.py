"""Batching in a model's settings: keys of their own, and the compile properties that say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import reduce
from typing import Any, cast

from inferwire_server.core.batch_options import NAMES, BatchOptions, divide
from inferwire_server.errors import ServingError, UnfitSetting
from inferwire_server.repository.setting_layers import Layer


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
        return replace(layer, table=table), [error.message]
    said: dict[str, Any] = {key: value for key, value in asdict(batches).items() if value is not None}
    twice = [
        f"{layer.called([key])} and {layer.called(['properties', NAMES[key]])} are both set, expected one of them: "
        "they say the same"
        for key in said
        if key in table
    ]
    for key, value in said.items():
        table.setdefault(key, list(value) if key == "preferred_batches" else value)
    return replace(layer, table=table), twice


def batches_of(layers: Sequence[Layer], read: Mapping[str, Any]) -> BatchOptions:
    """Lay what layers say of batching by keys one over the other; `read` has the values that win."""
    left, batches = dict(read), list[BatchOptions]()
    for layer in reversed(layers):
        own = [key for key in NAMES if key in left and layer.says([key])]
        batches.append(BatchOptions(**{key: left.pop(key) for key in own}))
    return reduce(lambda above, below: above.over(below), batches)


def as_said(unfit: UnfitSetting, layers: Sequence[Layer]) -> UnfitSetting:
    """Name what is wrong with batching by the property, where a property is what says it."""
    name = NAMES.get(".".join(unfit.setting))
    for layer in reversed(layers):
        if layer.says(unfit.setting):
            break
        if name is not None and layer.says(["properties", name]):
            return UnfitSetting(["properties", name], unfit.reason)
    return unfit
