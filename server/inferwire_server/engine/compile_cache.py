"""A folder of compiled models that several processes may share: one at a time compiles into it.

OpenVINO reads and writes there as if it were alone: of two processes that compile one model at once, either fails.
"""

from __future__ import annotations

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

LOCK = "inferwire.lock"
"""The file in it that says that somebody does."""


@contextmanager
def alone_in(folder: Path) -> Generator[None]:
    """Compile while nobody else does. A folder that cannot be written to changes for nobody."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("ab")
    except OSError:
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
