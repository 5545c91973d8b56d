"""Settings of one model from several sources, one laid over the other: its file, a configuration, a load.

Knows no setting. An error names the source of the wrong setting, which may be no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, cast

from inferwire_server.errors import ServingError, UnfitSetting
from inferwire_server.repository.setting_values import shown


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says.

    Attributes:
        source: Where it is said, as an error names it.
        table: What is said, as a settings file would say it.
        fields: What the source itself calls settings, where it is no settings file.
    """

    source: str
    table: Mapping[str, Any]
    fields: Mapping[str, str] = field(default_factory=dict[str, str])

    def says(self, path: Iterable[str]) -> bool:
        """Tell whether it says something there, by the names of tables within tables."""
        found: object = self.table
        for name in path:
            if not isinstance(found, Mapping) or name not in found:
                return False
            found = cast("Mapping[str, object]", found)[name]
        return True

    def called(self, path: Sequence[str]) -> str:
        """Write the setting at a path as the source calls it."""
        first, *rest = path
        return ".".join([self.fields.get(first, first), *rest])


def flattened(layers: Iterable[Layer]) -> dict[str, Any]:
    """Lay each layer over those before it; tables within them likewise."""
    table: dict[str, Any] = {}
    for layer in layers:
        table = _merged(table, layer.table)
    return table


def layer_of(layers: Sequence[Layer], path: Sequence[str]) -> Layer:
    """Give the layer whose setting at this path wins; the lowest if none has it."""
    return next((layer for layer in reversed(layers) if layer.says(path)), layers[0])


def told(unfit: UnfitSetting, layers: Sequence[Layer]) -> ServingError | None:
    """Turn a setting that does not fit the model into an error that names its source and value; None if none has it."""
    path = unfit.setting
    for layer in reversed(layers):
        if layer.says(path):
            found: Any = reduce(lambda table, name: table[name], path, layer.table)
            said = f"{layer.source}: {layer.called(path)} is {shown(found)}"
            return ServingError(unfit.code, f"{said}: {unfit.reason}")
    return None


def _merged(table: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(table)
    for name, value in over.items():
        below: Any = result.get(name)
        is_table = isinstance(below, dict) and isinstance(value, dict)
        result[name] = _merged(cast("dict[str, Any]", below), cast("dict[str, Any]", value)) if is_table else value
    return result
