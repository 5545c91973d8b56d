"""What tests of the engine share."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def no_new_threads() -> Generator[None, None, None]:
    """Have the system refuse every new thread, as where memory or process ids are used up."""
    size = threading.stack_size(2**47)  # no address space has room for it
    try:
        yield
    finally:
        threading.stack_size(size)
