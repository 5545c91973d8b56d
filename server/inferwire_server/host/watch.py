"""Tells of changes in files that others write: the system watches folders, and a few files are looked at every second.

That something has changed is all that is told; what it was, those who follow find out.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing, suppress
from pathlib import Path
from stat import S_ISDIR
from typing import NamedTuple

import structlog
import watchfiles

log = structlog.stdlib.get_logger()

_QUIET_MS = 400
"""How long nothing may change before a change is told, so that a copy has most often ended."""

_LOOK_S = 1.0
"""How long it is from one look at a file to the next."""

_AGAIN_S = 10.0
"""How long it is from a watch that failed to the next, and from one renewal to the next meanwhile."""


async def for_a_look() -> None:
    """Wait until files may be looked at again."""
    await asyncio.sleep(_LOOK_S)


async def for_another_watch() -> None:
    """Wait until what has failed to watch may be tried again."""
    await asyncio.sleep(_AGAIN_S)


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


async def changes_in(folders: Callable[[], Collection[Path]]) -> AsyncGenerator[object, None]:
    """Tell of changes in folders, of which each change may make others, and once that a watch is on; until cancelled.

    Nobody saw what changed before it was. It stays with the folders that it began with, wherever they are moved, and
    does not see what links to files lead to: whether there is something else in their place is looked at beside it.

    Raises:
        OSError: If a folder has gone while the watch began.
        RuntimeError: If the system watches no more.
    """
    while True:
        roots = await asyncio.to_thread(_identities, folders)
        below = await asyncio.to_thread(_below, roots)
        seen = await asyncio.to_thread(_identities, folders, below.links)
        has_begun = False
        async with aclosing(_changes(below.watched, roots)) as changes:
            async for change in changes:
                if change or not has_begun:
                    has_begun = True
                    yield change
                    if below != await asyncio.to_thread(_below, roots):
                        break
                if seen != await asyncio.to_thread(_identities, folders, below.links):
                    break


class _Below(NamedTuple):
    """What is below some folders.

    Attributes:
        watched: What to watch to be told of all of it, as far as it can be read.
        links: Those in it, behind which it goes on where they lead to folders.
    """

    watched: frozenset[Path]
    links: frozenset[Path]


def _identities(folders: Callable[[], Collection[Path]], links: Collection[Path] = ()) -> dict[Path, tuple[int, ...]]:
    """Give which folders there are and which files, wherever links to them lead."""
    found: dict[Path, tuple[int, ...]] = {}
    for path in (*folders(), *links):
        with suppress(OSError):
            status = path.stat()
            content = () if S_ISDIR(status.st_mode) else (status.st_size, status.st_mtime_ns)
            found[path] = status.st_dev, status.st_ino, *content
    return found


def _below(roots: Collection[Path]) -> _Below:
    """Look for what has to be watched.

    The system's watch of a folder and all below it ends at the first that cannot be read, and passes over those behind:
    where there is one, each that can be read is named.
    """
    readable: dict[tuple[int, int], Path] = {}
    unreadable: list[str] = []
    links: set[Path] = set()

    def pass_over(error: OSError) -> None:
        # Others have gone since.
        if isinstance(error, PermissionError):
            unreadable.append(error.filename)

    for root in roots:
        for path, below, files in os.walk(root, onerror=pass_over, followlinks=True):
            folder = Path(path)
            with suppress(OSError):
                found = folder.stat()
                if readable.setdefault((found.st_dev, found.st_ino), folder) is not folder:
                    below.clear()  # a link leads back to it
            links.update(each for name in (*below, *files) if (each := folder / name).is_symlink())
    return _Below(frozenset(readable.values() if unreadable else roots), frozenset(links))


def _state(file: Path) -> object:
    """Give what differs once a file's content may differ, or who may read it."""
    try:
        found = file.stat()
    except OSError as error:
        return error.errno
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _changes(folders: Collection[Path], roots: Collection[Path]) -> AsyncGenerator[object, None]:
    """Tell of changes in folders and all below them, or every second that there are none."""
    ordinary = watchfiles.DefaultFilter()

    def counts(change: watchfiles.Change, path: str) -> bool:
        """Pass over what editors and version control write for themselves, but not for what lies above the roots."""
        below = (Path(path).relative_to(root) for root in map(Path.absolute, roots) if Path(path).is_relative_to(root))
        return ordinary(change, str(next(below, path)))

    # Its types name trio's, which is not installed.
    return watchfiles.awatch(  # pyright: ignore[reportUnknownMemberType]
        *folders,
        watch_filter=counts,
        step=_QUIET_MS,
        rust_timeout=round(_LOOK_S * 1000),
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )


async def follow(
    changes: Callable[[], AsyncGenerator[object, None]],
    renew: Callable[[], Awaitable[object]],
    failure: str,
    wait: Callable[[], Awaitable[object]] = for_another_watch,
) -> None:
    """Renew what is served after every change; if that fails, the log says so, and why.

    What tells of changes may fail, too: it is begun anew after a while, and until it tells again, what is served is
    renewed whether there was a change or not.
    """
    told = ""
    while True:
        try:
            async with aclosing(changes()) as watch:
                async for _ in watch:
                    told = ""
                    await _try(renew, failure)
        except Exception as error:  # noqa: BLE001 - what serves serves on, and its files are looked at all the same
            reason = _why(error)
            if reason != told:
                log.error("changes are not seen at once", reason=reason, looks_every_s=_AGAIN_S)
            told = reason
        await wait()
        await _try(renew, failure)


async def _try(renew: Callable[[], Awaitable[object]], failure: str) -> None:
    try:
        await renew()
    except Exception as error:  # noqa: BLE001 - what serves serves on, and the next change is followed again
        log.error(failure, reason=str(error))


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return str(error)
    # The library's own error, which it does not export, is one of these.
    advice = "if it is the system's limit, raise fs.inotify.max_user_watches and fs.inotify.max_user_instances"
    return f"{error}; {advice}" if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}"
