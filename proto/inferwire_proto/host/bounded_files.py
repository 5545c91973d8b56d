"""Reads files that users name, up to a bound: a device may have no end, and a pipe no writer.

Does not read models, which may be of any size.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from errno import EFBIG, EILSEQ, EINVAL, ETIMEDOUT
from io import FileIO
from pathlib import Path

MOST_BYTES = 16 << 20
"""More than settings, keys and certificates have: those of all public authorities are some hundred KiB."""

MOST_LABEL_BYTES = 64 << 20
"""More than the names of any model's classes have."""

_SILENCE_S = 30.0
"""How long a pipe may be silent: its writer may have to ask a person for a password."""

_PIECE_BYTES = 1 << 20

_KINDS = {stat.S_IFIFO: "pipe", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
"""Kinds of things that are no files and can be read like one."""


def read_bounded(
    path: Path, most_bytes: int = MOST_BYTES, silence_s: float = _SILENCE_S, *, is_read_again: bool = False
) -> bytes:
    """Read a file, or whatever else can be read to its end, as a pipe; of what is read again and again a file alone.

    Nothing is left in a pipe for who reads it the second time, who would wait.

    Raises:
        OSError: If it cannot be read, has more bytes, or is silent too long. Its `strerror` says why, without the path.
    """
    with FileIO(path, opener=_open_at_once) as file:
        found = os.fstat(file.fileno())
        kind, content = _KINDS.get(stat.S_IFMT(found.st_mode)), bytearray()
        if kind and is_read_again:
            raise OSError(EINVAL, f"it is a {kind}, expected a file")
        while max(len(content), 0 if kind else found.st_size) <= most_bytes:
            if kind and not _has_more(file, silence_s):
                raise OSError(ETIMEDOUT, f"it is a {kind}, and nothing came out of it for {silence_s:g} s")
            piece = file.read(min(_PIECE_BYTES, most_bytes + 1 - len(content)))
            if piece == b"":
                return bytes(content)
            content += piece or b""
    if kind:
        raise OSError(EFBIG, f"it is a {kind} with more than {_mebibytes(most_bytes)} MiB")
    size = max(found.st_size, len(content))
    raise OSError(EFBIG, f"it has {_mebibytes(size)} MiB, expected at most {_mebibytes(most_bytes)}")


def read_text(path: Path, most_bytes: int = MOST_BYTES, *, is_read_again: bool = False) -> str:
    """Read a file of text in UTF-8, which may begin with a byte order mark, as editors of Windows write it.

    Raises:
        OSError: As `read_bounded`, or with the line of what is not UTF-8.
    """
    content = read_bounded(path, most_bytes, is_read_again=is_read_again)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        *lines, last = error.object[: error.start].split(b"\n")
        where = f"line {len(lines) + 1}, column {len(last.decode()) + 1}"
        raise OSError(EILSEQ, f"{where}: this is not UTF-8, expected a text file that is") from error


def why_not_read(error: Exception) -> str:
    """Say why a file cannot be read, or written, without its name: the sentence around it has that."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _open_at_once(path: str, flags: int) -> int:
    """Open a file as usual, but do not wait for the writer of a pipe."""
    return os.open(path, flags if sys.platform == "win32" else flags | os.O_NONBLOCK)  # Windows has no such pipes


def _has_more(file: FileIO, silence_s: float) -> bool:
    """Wait until bytes come, or the end; tell whether they did before the time was up."""
    if sys.platform == "win32":
        return True  # Windows can tell that of sockets alone: who reads a device waits, however long
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    return bool(waiting.poll(silence_s * 1000))


def _mebibytes(size: int) -> str:
    return f"{-(-size >> 20):,}"
