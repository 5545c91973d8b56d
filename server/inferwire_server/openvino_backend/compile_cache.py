"""A folder of compiled models that several processes may share: one at a time compiles into it.

OpenVINO reads and writes there as if it were alone: of two processes that compile one model at once, either fails.
What threads of one process compile takes turns as well, of which nobody is told: it is no sign of another server.
"""

from __future__ import annotations

import fcntl
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import structlog

log = structlog.stdlib.get_logger()

LOCK = "inferwire.lock"
"""The file in it that says that somebody does."""


_ASKING: Counter[Path] = Counter()
_COUNTING = Lock()


@contextmanager
def alone_in(folder: Path) -> Generator[bool]:
    """Compile while nobody else does; give whether there is any use in the folder.

    One that cannot be written to changes for nobody, and one that cannot be looked into would end the process.
    """
    with ExitStack() as held:
        is_first = held.enter_context(_asking(folder))
        is_of_use = True
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _lock(held.enter_context((folder / LOCK).open("ab")), folder, says_so=is_first)
        except OSError as error:
            is_of_use = _can_be_looked_into(folder)
            event = "compiling without the cache's lock" if is_of_use else "compiling without the cache"
            log.warning(event, folder=str(folder), reason=str(error))
        yield is_of_use


def kept_in(folder: Path, model: str, compile_it: Callable[[], Any]) -> Any:
    """Compile a model, and warn if the folder has not got it then: OpenVINO is silent of a volume that is full."""
    before = _blobs(folder)
    compiled = compile_it()
    # AUTO names a device in brackets that serves while it compiles for another: that may be kept yet.
    is_final = not any(name.startswith("(") for name in compiled.get_property("EXECUTION_DEVICES"))
    if is_final and not compiled.get_property("LOADED_FROM_CACHE") and _blobs(folder) == before:
        log.warning("not kept in the cache", model=model, folder=str(folder))
    return compiled


def _blobs(folder: Path) -> dict[Path, int]:
    """Give when each compiled model in it was written, as far as can be seen."""
    found: dict[Path, int] = {}
    with suppress(OSError):
        for blob in folder.glob("*.blob"):
            with suppress(OSError):  # somebody may be emptying it
                found[blob] = blob.stat().st_mtime_ns
    return found


def _can_be_looked_into(folder: Path) -> bool:
    try:
        (folder / LOCK).stat()
    except (FileNotFoundError, NotADirectoryError):
        return True  # that there is nothing was seen
    except OSError:
        return False
    return True


@contextmanager
def _asking(folder: Path) -> Generator[bool]:
    """Count a thread that is, or wants to be, alone in a folder; give whether no other of this process is counted."""
    with _COUNTING:
        _ASKING[folder] += 1
        is_first = _ASKING[folder] == 1
    try:
        yield is_first
    finally:
        with _COUNTING:
            _ASKING[folder] -= 1


def _lock(file: BinaryIO, folder: Path, *, says_so: bool) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if says_so:
            log.info("waiting for another that compiles into the cache", folder=str(folder))
        fcntl.flock(file, fcntl.LOCK_EX)
