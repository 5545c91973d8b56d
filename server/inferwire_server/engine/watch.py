"""Follows the repository's folder: what changes in it is loaded, reloaded or unloaded.

The library says that something has changed, and gathers what changes together; what it was, the loader sees itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path

import structlog
import watchfiles

from inferwire_server.engine.loader import Loader

log = structlog.stdlib.get_logger()

_QUIET_MS = 400
"""How long nothing may change before a change is told, so that a copy has most often ended."""


def changes_in(root: Path) -> AsyncIterator[object]:
    """Tell of changes in a repository, which may be one file; until cancelled."""
    return _changes([root if root.is_dir() else root.parent])


async def changes_in_any(folders: Callable[[], Collection[Path]]) -> AsyncIterator[object]:
    """Tell of changes in folders, of which each change may make others; until cancelled."""
    while True:
        watched = folders()
        async for change in _changes(watched):
            yield change
            if folders() != watched:
                break


def _changes(folders: Collection[Path]) -> AsyncIterator[object]:
    # Its types name trio's, which is not installed.
    return watchfiles.awatch(*folders, step=_QUIET_MS)  # pyright: ignore[reportUnknownMemberType]


async def follow(changes: AsyncIterator[object], loader: Loader) -> None:
    """Make the served models those of the repository after every change."""
    async for _ in changes:
        try:
            await loader.sync()
        except Exception as error:  # noqa: BLE001 - what serves serves on, and the next change is followed again
            log.error("the repository cannot be read", reason=str(error))
