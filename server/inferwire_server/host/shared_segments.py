"""Segments of this machine's shared memory: checks whether a key may be used and has enough bytes, and maps it.

A mapping lives as long as a `Segment` or a view of one does. Reading beyond the end of a segment that was cut
shorter meanwhile would end this process: so its length is checked each time, and its owner is trusted not to cut it
while it is being read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from mmap import ALLOCATIONGRANULARITY, mmap
from pathlib import Path
from stat import S_ISREG

import numpy as np

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError, invalid_input, is_lack_of_files

FOLDER = Path("/dev/shm")  # noqa: S108 - nothing is created there
"""Where the system shows shared memory as files."""

_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class SharedSegments:
    """Opens segments whose keys begin as the operator allows. A `/` before a key does not count; alone it allows any.

    Raises:
        ServingError: INVALID_INPUT for a prefix that no key can begin with.
    """

    def __init__(self, prefixes: Sequence[str], folder: Path = FOLDER) -> None:
        self._prefixes = tuple(prefix.lstrip("/") for prefix in prefixes)
        self._folder = folder
        for prefix in prefixes:
            if not prefix or "/" in prefix.lstrip("/"):
                raise invalid_input(f"--shared-memory is '{prefix}', expected what keys begin with, '/' at most first")

    def open(self, key: str, offset: int, byte_size: int) -> Segment:
        """Map a part of a segment. Blocks: memory that was never written to is allocated now.

        Raises:
            ServingError: PERMISSION_DENIED for a key that is not allowed; INVALID_INPUT for one that is no key, of
                which there is none, or that has fewer bytes; TOO_LARGE if there is no memory for it.
            OSError: If no more files can be opened.
        """
        if offset < 0 or byte_size <= 0:
            raise invalid_input(
                f"shared memory key '{key}' has offset {offset} and byte size {byte_size}, "
                "expected an offset from 0 and a size from 1 on"
            )
        descriptor = self._open(key)
        try:
            return _mapped(descriptor, key, offset, byte_size)
        finally:
            os.close(descriptor)

    def _open(self, key: str) -> int:
        name = key.lstrip("/")
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise invalid_input(
                f"shared memory key {key!r} is no key, expected a name with '/' at its start or not at all"
            )
        if not name.startswith(self._prefixes):
            raise ServingError(
                Code.PERMISSION_DENIED,
                f"shared memory key '{key}' begins with none of the prefixes that --shared-memory allows: "
                f"{', '.join(map(repr, self._prefixes))}",
            )
        try:
            return os.open(self._folder / name, _FLAGS)
        except OSError as error:
            if is_lack_of_files(error):
                raise  # callers are told of that, too, and to try again
            raise invalid_input(f"Unable to open shared memory region: '{key}': {error.strerror}") from error


class Segment:
    """A mapped part of a segment."""

    def __init__(self, key: str, memory: mmap, start: int, end: int) -> None:
        self._key = key
        self._memory = memory
        self._start = start
        self._end = end

    def __repr__(self) -> str:
        return f"<Segment of '{self._key}'>"

    def view(self, offset: int, byte_size: int) -> memoryview:
        """Show bytes where they lie, to read alone.

        Raises:
            ServingError: INVALID_INPUT if the segment has been cut shorter.
        """
        return self._room(offset, byte_size).toreadonly()

    def write(self, offset: int, data: bytes | memoryview) -> memoryview:
        """Write bytes and show them.

        Raises:
            ServingError: INVALID_INPUT if the segment has been cut shorter.
        """
        room = self._room(offset, len(data))
        # numpy lets other threads run while it copies.
        np.copyto(np.frombuffer(room, np.uint8), np.frombuffer(data, np.uint8))
        return room.toreadonly()

    def _room(self, offset: int, byte_size: int) -> memoryview:
        if self._memory.size() < self._end:
            raise invalid_input(
                f"shared memory key '{self._key}' has {self._memory.size()} bytes by now, "
                f"expected the {self._end} it was registered with"
            )
        return memoryview(self._memory)[self._start + offset : self._start + offset + byte_size]


def _mapped(descriptor: int, key: str, offset: int, byte_size: int) -> Segment:
    status = os.fstat(descriptor)
    end = offset + byte_size
    if not S_ISREG(status.st_mode):
        raise invalid_input(f"shared memory key '{key}' is something else, expected shared memory")
    if status.st_size < end:
        raise invalid_input(
            f"shared memory key '{key}' has {status.st_size} bytes, "
            f"expected {end} or more for offset {offset} and byte size {byte_size}"
        )
    try:
        # Allocated now: writing where there is no page, when none is left to be had, would end this process.
        os.posix_fallocate(descriptor, offset, byte_size)
        begin = offset - offset % ALLOCATIONGRANULARITY
        memory = mmap(descriptor, end - begin, offset=begin)
    except (OSError, ValueError) as error:
        if is_lack_of_files(error):
            raise
        raise ServingError(
            Code.TOO_LARGE, f"there is no room for {byte_size} bytes of shared memory key '{key}': {error}"
        ) from error
    return Segment(key, memory, offset - begin, end)
