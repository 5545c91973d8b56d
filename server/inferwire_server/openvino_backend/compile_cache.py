"""A folder of compiled models that several processes may share: one at a time compiles into it.

OpenVINO reads and writes there as if it were alone: of two processes that compile one model at once, either fails.
The threads of one process take turns as well. That is not logged, because it is no sign of another server.
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
"""The file in the folder that a process locks while it compiles."""


_ASKING: Counter[Path] = Counter()
_COUNTING = Lock()


@contextmanager
def alone_in(folder: Path) -> Generator[bool]:
    """Hold the folder's lock while a model is compiled; give whether the folder is of any use.

    A folder that cannot be written to needs no lock, because it never changes. A folder that cannot be looked into is
    of no use, because it would end the process; one that is not there and cannot be made would fail the model.
    """
    with ExitStack() as held:
        is_first = held.enter_context(_asking(folder))
        is_of_use = True
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _lock(held.enter_context((folder / LOCK).open("ab")), folder, says_so=is_first)
        except OSError as error:
            is_of_use = _is_of_use(folder)
            event = "compiling without the cache's lock" if is_of_use else "compiling without the cache"
            log.warning(event, folder=str(folder), reason=str(error))
        yield is_of_use


def kept_in(folder: Path, model: str, compile_it: Callable[[], Any]) -> Any:
    """Compile a model, and warn if it is not in the folder then: OpenVINO says nothing of a volume that is full."""
    before = _blobs(folder)
    compiled = compile_it()
    # AUTO puts a device in brackets that serves only until AUTO has compiled for another, which may be kept yet.
    is_final = not any(name.startswith("(") for name in compiled.get_property("EXECUTION_DEVICES"))
    if is_final and not compiled.get_property("LOADED_FROM_CACHE") and _blobs(folder) == before:
        log.warning("not kept in the cache", model=model, folder=str(folder))
    return compiled


def _blobs(folder: Path) -> dict[Path, int]:
    """Give when each compiled model in it was written, as far as can be seen."""
    found: dict[Path, int] = {}
    with suppress(OSError):
        for blob in folder.glob("*.blob"):
            with suppress(OSError):  # the folder may be emptied meanwhile
                found[blob] = blob.stat().st_mtime_ns
    return found


def _is_of_use(folder: Path) -> bool:
    try:
        (folder / LOCK).stat()
    except FileNotFoundError:
        return folder.is_dir()  # without such a file
    except OSError:
        return False
    return True


@contextmanager
def _asking(folder: Path) -> Generator[bool]:
    """Count a thread that has a folder's lock or waits for it; give whether it is the only one of this process."""
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
