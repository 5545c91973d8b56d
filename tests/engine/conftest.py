"""What tests of the engine share."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@contextmanager
def no_new_threads() -> Generator[None, None, None]:
    """Have the system refuse every new thread, as where memory or process ids are used up."""
    size = threading.stack_size(2**47)  # no address space has room for it
    try:
        yield
    finally:
        threading.stack_size(size)


@pytest.fixture
def readable_by_all() -> Generator[Path]:
    """A repository that users without rights may read; pytest's own folders are not for them."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def without_rights() -> Generator[None]:
    """Be a user whom permissions hold for."""
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        yield
    finally:
        os.seteuid(user)
