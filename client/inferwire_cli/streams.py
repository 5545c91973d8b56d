"""Output that cannot be written: its reader has gone, or the disk is full. Needs no package of an extra."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def flush_or_forget(stream: TextIO) -> None:
    """Flush the stream; if that fails, discard the rest, which would raise again as the interpreter ends."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def complain(sentence: str) -> None:
    """Write a sentence to stderr; if that fails, the exit code alone tells of the error."""
    with suppress(OSError):
        sys.stderr.write(f"{sentence}\n")
    flush_or_forget(sys.stderr)
