"""Follows files that others write, as those of the repository.

The library says that something has changed, and gathers what changes together; what it was, those who follow see.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing
from pathlib import Path

import structlog
import watchfiles

log = structlog.stdlib.get_logger()

_QUIET_MS = 400
"""How long nothing may change before a change is told, so that a copy has most often ended."""


def changes_in(root: Path) -> AsyncIterator[object]:
    """Tell of changes in a repository, which may be one file; until cancelled."""
    return _changes([root if root.is_dir() else root.parent])


async def changes_of(files: Collection[Path]) -> AsyncGenerator[object, None]:
    """Tell of changes of files, also of those before the watch was on; until cancelled.

    Their folders are watched: a file that is renewed is most often another one of its name, or is found by a link. What
    else happens there, as in a log, is passed over.
    """
    seen: list[object] = []
    async with aclosing(_changes_and_before({file.parent for file in files})) as changes:
        async for change in changes:
            found = list(map(_state, files))
            if found != seen:
                seen = found
                yield change


async def changes_in_any(folders: Callable[[], Collection[Path]]) -> AsyncGenerator[object, None]:
    """Tell of changes in folders, of which each change may make others; until cancelled."""
    watched = folders()
    changes = _changes(watched)
    while True:
        async with aclosing(changes):
            async for change in changes:
                yield change
                if folders() != watched:
                    break
        watched = folders()
        changes = _changes_and_before(watched)


async def _changes_and_before(folders: Collection[Path]) -> AsyncGenerator[object, None]:
    """Tell once that a watch is on, since nobody saw what changed before; then of changes."""
    async with aclosing(_changes(folders)) as changes:
        first = asyncio.ensure_future(anext(changes))
        try:
            await asyncio.sleep(0)  # the watch is on from its first step
            yield "watched"
            yield await first
        finally:
            first.cancel()
            await asyncio.wait([first])
        async for change in changes:
            yield change


def _state(file: Path) -> object:
    """Give what is another where a file's content may be."""
    try:
        found = file.stat()
    except OSError as error:
        return error.errno
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _changes(folders: Collection[Path]) -> AsyncGenerator[object, None]:
    # Its types name trio's, which is not installed.
    return watchfiles.awatch(*folders, step=_QUIET_MS)  # pyright: ignore[reportUnknownMemberType]


async def follow(changes: AsyncIterator[object], renew: Callable[[], Awaitable[object]], failure: str) -> None:
    """Renew what is served after every change; if that fails, the log says so, and why."""
    async for _ in changes:
        try:
            await renew()
        except Exception as error:  # noqa: BLE001 - what serves serves on, and the next change is followed again
            log.error(failure, reason=str(error))
