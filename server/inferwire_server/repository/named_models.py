"""Models that are named one by one, each with where it lies: the folder of its versions or files, or a single file.

It opens no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from inferwire_server.core.versions import VersionPolicy
from inferwire_server.errors import invalid_input
from inferwire_server.repository.entries import Entry, as_utf8
from inferwire_server.repository.listing import Overrides, chosen, overridden, versions_at
from inferwire_server.repository.looks import is_file, is_there


class NamedModels:
    """Where each model lies, by its name; there may be none. The policy is for those without one of their own."""

    def __init__(self, locations: Mapping[str, Path], policy: VersionPolicy) -> None:
        self.source = ", ".join(f"{name}={location}" for name, location in locations.items())
        self.why_empty = "no models are named, expected a folder with --model-repository, or --allow-uploads"
        self._locations = locations
        self._policy = policy

    def __repr__(self) -> str:
        return f"<NamedModels {self.source}>"

    def served(self, overrides: Overrides = MappingProxyType({}), name: str | None = None) -> list[Entry]:
        """List the versions to serve, in the order of the names given; with a name, those of its model alone.

        Raises:
            ServingError: INVALID_INPUT if there is nothing where one is to lie.
        """
        models = [(model, location) for model, location in self._locations.items() if name in (None, model)]
        for model, location in models:
            if _is_missing(location):
                raise invalid_input(
                    f"model '{model}' is to be served from '{as_utf8(str(location))}', which does not exist"
                )
        return [
            entry
            for model, location in models
            for entry in chosen(overridden(versions_at(location, model), overrides), self._policy)
        ]

    def folders(self) -> frozenset[Path]:
        """Give the folders in which a change may matter."""
        return frozenset(location.parent if is_file(location) else location for location in self._locations.values())


def _is_missing(location: Path) -> bool:
    """Tell whether nothing is there. If that cannot be told, it is reading the model that says why."""
    try:
        return not is_there(location)
    except OSError:
        return False
