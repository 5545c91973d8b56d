"""Tells of changes in files that others write: the system watches folders, and a few files are looked at every second.

Folders are looked at as well where the system does not report all changes. That something has changed is all that is
told: the code that follows finds out what it was.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from stat import S_ISDIR
from typing import NamedTuple

import structlog
import watchfiles

from inferwire_server.host.mounts import shared_devices

log = structlog.stdlib.get_logger()

_QUIET_MS = 400
"""How long nothing may change before a change is told, so that a copy has most often ended."""

_LOOK_S = 1.0
"""How long to wait between two looks at a file."""

_LOOK_AT_SHARED_S = 10.0
"""How long to wait between two looks at what other machines may change: each file may be a call over the network."""


async def for_a_look() -> None:
    """Wait until files may be looked at again."""
    await asyncio.sleep(_LOOK_S)


async def for_a_look_at_shared() -> None:
    """Wait until what other machines may change may be looked at again."""
    await asyncio.sleep(_LOOK_AT_SHARED_S)


async def changes_of(
    files: Collection[Path], wait: Callable[[], Awaitable[object]] = for_a_look
) -> AsyncGenerator[object, None]:
    """Tell of changes of a few files, also of those before the first look; until cancelled.

    They are looked at again and again, because no watch of the system's sees all that can replace a file: a link on the
    way to it that is moved, a folder that is made anew, or one that may be entered and not listed. A change is told
    once two looks find the same, so that the program that writes has most often ended.
    """
    async with aclosing(_differences(lambda: list(map(_state, files)), wait)) as differences:
        async for found in differences:
            yield found


async def _differences(
    look: Callable[[], object], wait: Callable[[], Awaitable[object]]
) -> AsyncGenerator[object, None]:
    """Tell what is found once two looks find the same, and again once that is something else; until cancelled."""
    before: object = None
    told: object = None
    while True:
        found = await asyncio.to_thread(look)
        if found == before and found != told:
            told = found
            yield found
        before = found
        await wait()


async def changes_in(
    folders: Callable[[], Collection[Path]],
    shared: Callable[[], Collection[int]] = shared_devices,
    wait: Callable[[], Awaitable[object]] = for_a_look_at_shared,
) -> AsyncGenerator[object, None]:
    """Tell of changes in folders, which a change may make others, and whenever a watch has begun; until cancelled.

    A watch has not seen what changed before it began. It stays with the folders that it began with, wherever they are
    moved, and does not see the files that links lead to. So it is checked besides whether others are in their place.
    Nor does it see what other machines change: where a folder is on a `shared` device, all files are looked at again
    and again, with a wait in between.

    Raises:
        OSError: If a folder has gone while the watch began.
        RuntimeError: If the system watches no more, or an ExceptionGroup of that.
    """
    was_shared = False
    while True:
        roots = await asyncio.to_thread(_identities, folders)
        find_below = partial(_below, roots, shared)
        below = await asyncio.to_thread(find_below)
        if below.is_shared and not was_shared:
            log.info("changes by other machines are looked for", looks_every_s=_LOOK_AT_SHARED_S)
        was_shared = below.is_shared
        seen = await asyncio.to_thread(_identities, folders, below.links)
        has_begun = False
        async with aclosing(_changes(below, find_below, roots, wait)) as changes:
            async for change in changes:
                if change or not has_begun:
                    has_begun = True
                    yield change
                    if below != await asyncio.to_thread(find_below):
                        break
                if seen != await asyncio.to_thread(_identities, folders, below.links):
                    break


class _Below(NamedTuple):
    """What is below some folders.

    Attributes:
        watched: What to watch to be told of all of it, as far as it can be read.
        is_each: Whether `watched` names each folder, and not only the topmost, because some folders cannot be read.
        links: The links in it. Those that lead to folders are followed.
        has_odd_names: Whether the name of anything in it is not UTF-8.
        is_shared: Whether other machines may change anything in it.
    """

    watched: frozenset[Path]
    is_each: bool
    links: frozenset[Path]
    has_odd_names: bool
    is_shared: bool


class _Folder(NamedTuple):
    """A folder, the device of its file system, and the names of what it has."""

    path: Path
    device: int
    names: tuple[str, ...]


def _identities(folders: Callable[[], Collection[Path]], links: Collection[Path] = ()) -> dict[Path, tuple[int, ...]]:
    """Identify the folders and files that are there; of a link, what it leads to."""
    found: dict[Path, tuple[int, ...]] = {}
    for path in (*folders(), *links):
        with suppress(OSError):
            status = path.stat()
            content = () if S_ISDIR(status.st_mode) else (status.st_size, status.st_mtime_ns)
            found[path] = status.st_dev, status.st_ino, *content
    return found


def _below(roots: Collection[Path], shared: Callable[[], Collection[int]]) -> _Below:
    """Look for what has to be watched.

    The system's watch of a folder and all below it ends at the first folder that cannot be read, and passes over those
    behind it. If there is such a folder, each folder that can be read is named.
    """
    readable: list[Path] = []
    unreadable: list[str] = []
    links: set[Path] = set()
    devices: set[int] = set()
    has_odd_names = False

    def pass_over(error: OSError) -> None:
        # With any other error, the folder is gone since.
        if isinstance(error, PermissionError):
            unreadable.append(error.filename)

    for folder, device, names in _walk(roots, pass_over):
        readable.append(folder)
        devices.add(device)
        links.update(each for name in names if _is_link(each := folder / name))
        has_odd_names = has_odd_names or not all(map(_is_utf8, names))
    is_each = bool(unreadable)
    is_shared = not devices.isdisjoint(shared())
    return _Below(frozenset(readable if is_each else roots), is_each, frozenset(links), has_odd_names, is_shared)


def _walk(roots: Collection[Path], pass_over: Callable[[OSError], None]) -> Iterator[_Folder]:
    """Give folders and all below them, also where links lead."""
    known: set[tuple[int, int]] = set()
    for root in roots:
        for path, below, files in os.walk(root, onerror=pass_over, followlinks=True):
            folder = Path(path)
            try:
                found = folder.stat()
            except OSError:
                continue  # it has gone since
            if (found.st_dev, found.st_ino) in known:
                below.clear()  # a link leads back to it
                continue
            known.add((found.st_dev, found.st_ino))
            yield _Folder(folder, found.st_dev, (*below, *files))


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError:
        return False  # it may not be looked at


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _all_in(roots: Collection[Path]) -> dict[Path, object]:
    """Give the state of all that is in folders and below them."""
    found = (folder.path / name for folder in _walk(roots, lambda _: None) for name in folder.names)
    return {path: _state(path) for path in found}


def _state(file: Path) -> object:
    """Give a value that changes if a file's content may have changed, or who may read it."""
    try:
        found = file.stat()
    except OSError as error:
        return error.errno
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


async def _changes(
    below: _Below,
    find_below: Callable[[], _Below],
    roots: Collection[Path],
    wait: Callable[[], Awaitable[object]],
) -> AsyncGenerator[object, None]:
    """Tell of changes below some folders, or every second that there are none; end if what to watch has changed.

    The system's watch ends when something happens to a file whose name is not UTF-8. If there is such a file, all files
    are looked at again and again instead, as are those that other machines may change, with a wait in between.
    """
    looked_at = _differences(partial(_all_in, roots), wait if below.is_shared else for_a_look)
    is_looked_at = below.is_shared or below.has_odd_names
    try:
        async with aclosing(looked_at if is_looked_at else _watched(below, roots)) as changes:
            async for change in changes:
                yield change
    except (ExceptionGroup, PermissionError):
        if below == await asyncio.to_thread(find_below):
            raise


def _watched(below: _Below, roots: Collection[Path]) -> AsyncGenerator[object, None]:
    """Have the system watch folders and all below them: tell of changes, or every second that there are none."""
    ordinary = watchfiles.DefaultFilter()

    def counts(change: watchfiles.Change, path: str) -> bool:
        """Pass over what editors and version control write for themselves, but not for what lies above the roots."""
        below = (Path(path).relative_to(root) for root in map(Path.absolute, roots) if Path(path).is_relative_to(root))
        return ordinary(change, str(next(below, path)))

    # Its types name trio's, which is not installed.
    return watchfiles.awatch(  # pyright: ignore[reportUnknownMemberType]
        *below.watched,
        watch_filter=counts,
        step=_QUIET_MS,
        rust_timeout=round(_LOOK_S * 1000),
        yield_on_timeout=True,
        recursive=not below.is_each,
        # Otherwise a watch that the system refuses, for example because its limit is reached, would be silent as well.
        ignore_permission_denied=False,
    )
