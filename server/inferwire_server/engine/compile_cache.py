"""A folder of compiled models that several processes may share: one at a time compiles into it.

OpenVINO reads and writes there as if it were alone: of two processes that compile one model at once, either fails.
What threads of one process compile takes turns as well, of which nobody is told: it is no sign of another server.
"""

from __future__ import annotations

import fcntl
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import structlog

log = structlog.stdlib.get_logger()

LOCK = "inferwire.lock"
"""The file in it that says that somebody does."""


@contextmanager
def alone_in(folder: Path) -> Generator[None]:
    """Compile while nobody else does. A folder that cannot be written to changes for nobody."""
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _lock(held.enter_context((folder / LOCK).open("ab")), folder)
        except OSError as error:
            log.warning("compiling without the cache's lock", folder=str(folder), reason=str(error))
        yield


def _lock(file: BinaryIO, folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        log.info("waiting for another that compiles into the cache", folder=str(folder))
        fcntl.flock(file, fcntl.LOCK_EX)
