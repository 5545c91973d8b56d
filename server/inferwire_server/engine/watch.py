"""Follows files that others write: folders of many, which the system watches, and a few that are looked at.

That something has changed is all that is told; what it was, those who follow see.
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

_LOOK_S = 1.0
"""How long it is from one look at a file to the next."""


def changes_in(root: Path) -> AsyncIterator[object]:
    """Tell of changes in a repository, which may be one file; until cancelled."""
    return _changes([root if root.is_dir() else root.parent])


async def for_a_look() -> None:
    """Wait until files may be looked at again."""
    await asyncio.sleep(_LOOK_S)


async def changes_of(
    files: Collection[Path], wait: Callable[[], Awaitable[object]] = for_a_look
) -> AsyncGenerator[object, None]:
    """Tell of changes of a few files, also of those before the first look; until cancelled.

    They are looked at again and again, since no watch of the system's sees all that makes another file of one: a link
    on the way to it that is moved, a folder that is made anew, one that may be entered and not listed. A change is told
    once two looks find the same, so that whoever writes has most often ended.
    """
    before: object = None
    told: object = None
    while True:
        found = await asyncio.to_thread(lambda: list(map(_state, files)))
        if found == before and found != told:
            told = found
            yield found
        before = found
        await wait()


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
    """Give what is another where a file's content, or who may read it, may be."""
    try:
        found = file.stat()
    except OSError as error:
        return error.errno
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


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
