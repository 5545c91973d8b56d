"""The repository of a server that is given no models: only its clients bring some."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from inferwire_server.repository.entries import Entry, Overrides


class NoRepository:
    """Has no model, and never will."""

    def __repr__(self) -> str:
        return "<NoRepository>"

    @property
    def source(self) -> None:
        """Nothing is read."""
        return None

    @property
    def why_empty(self) -> str:
        """Say why there is nothing to serve."""
        return "no models are named, expected a folder with --model-repository, or --allow-uploads"

    def served(
        self,
        overrides: Overrides = MappingProxyType({}),  # noqa: ARG002 - as others have it
        name: str | None = None,  # noqa: ARG002 - as others have it
    ) -> list[Entry]:
        """List the versions to serve."""
        return []

    def folders(self) -> frozenset[Path]:
        """Give the folders in which a change may matter."""
        return frozenset()
