"""What is printed where nobody can take it: who reads has gone, or the disk is full. Needs no package of an extra."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def flush_or_forget(stream: TextIO) -> None:
    """Give away what was printed; what cannot be given must not raise again as the interpreter ends."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def complain(sentence: str) -> None:
    """Write a sentence to stderr; where that cannot take it, the exit code says it all the same."""
    with suppress(OSError):
        sys.stderr.write(f"{sentence}\n")
    flush_or_forget(sys.stderr)
