"""Memory that a server on this host may read in place: makes it, recognises it in buffers to be sent, and closes it.

A forked child has it at the same address, writes to pages of its own there, and cannot lend it. Knows no server.
"""

from __future__ import annotations

import os
import secrets
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from inferwire.process import THIS
from inferwire_proto.lent_memory import NAME, NONCE_BYTES, SEALS, Mapping

if sys.platform == "linux":
    import fcntl

MOST_FILES = 256
"""How many pieces of memory there are at most: each takes an open file, of which a process has about a thousand."""

_ids = count(1)
_files: weakref.WeakKeyDictionary[Mapping, int] = weakref.WeakKeyDictionary()
"""The open file of each mapping, which a forked child maps once more."""


class LentMemory:
    """A piece of memory, zeroed at first, and the file behind it.

    Attributes:
        id: Its number, unique in this process.
        pid: The process that may lend it.
        descriptor: The file's descriptor.
        byte_size: The size of the file.
        nonce: The random bytes at the file's end.
    """

    def __init__(self, byte_size: int) -> None:
        self.id = next(_ids)
        self.pid = THIS.pid
        self.byte_size = byte_size + NONCE_BYTES
        self.nonce = secrets.token_bytes(NONCE_BYTES)
        self.descriptor, mapping = _new_file(self.byte_size)
        self._bytes = mapping.bytes
        self._bytes[byte_size:] = np.frombuffer(self.nonce, np.uint8)

    def __repr__(self) -> str:
        return f"<LentMemory {self.id}: {self.byte_size - NONCE_BYTES} bytes in file {self.descriptor}>"

    def elements(self, dtype: np.dtype[Any], size: int) -> np.ndarray[Any, Any]:
        """Give its first `size` elements."""
        return self._bytes[: size * dtype.itemsize].view(dtype)

    def wire_data(self, byte_size: int) -> memoryview:
        """Give its first `byte_size` bytes, which `memory_behind` recognises."""
        exporter = self._bytes.view(_Exporter)
        exporter.memory = self
        return exporter.data[:byte_size].toreadonly()


Lend: TypeAlias = Callable[[int], LentMemory | None]
"""Gives memory of so many bytes that a server may read in place; None if ordinary memory is as good."""


class _Exporter(np.ndarray[Any, np.dtype[np.uint8]]):
    """What a memoryview of lent memory has as its `obj`."""

    memory: LentMemory


def memory_behind(data: memoryview | bytes) -> LentMemory | None:
    """Give the memory that a buffer lies in, if this process can lend it."""
    exporter = data.obj if isinstance(data, memoryview) else None
    if isinstance(exporter, _Exporter) and exporter.memory.pid == THIS.pid:
        return exporter.memory
    return None


def new_memory(byte_size: int) -> LentMemory | None:
    """Make memory; None if the system cannot give it, or this process has the most pieces already."""
    if len(_files) >= MOST_FILES:
        return None
    try:
        return LentMemory(byte_size)
    except OSError:
        return None


def _new_file(byte_size: int) -> tuple[int, Mapping]:
    """Make a file and map it. It stays open as long as an array of it is held."""
    if sys.platform != "linux":
        raise OSError("this system has no memory with a name")
    descriptor = os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, byte_size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        mapping = Mapping(descriptor, byte_size)
    except BaseException:
        os.close(descriptor)
        raise
    weakref.finalize(mapping, _close, descriptor, THIS.pid).atexit = False
    _files[mapping] = descriptor
    return descriptor, mapping


def _close(descriptor: int, pid: int) -> None:
    """Close a file, but not in a forked child, which has closed its copy and may have the number for another file."""
    if pid == THIS.pid:
        os.close(descriptor)


def _part() -> None:
    """Keep a forked child from writing to memory that its parent or the server reads."""
    try:
        for mapping, descriptor in tuple(_files.items()):
            mapping.become_private(descriptor)
            with suppress(OSError):
                os.close(descriptor)
        _files.clear()
    except BaseException:  # noqa: BLE001 - Python ignores what is raised at a fork, and the child must not go on
        os.abort()


if sys.platform == "linux":
    os.register_at_fork(after_in_child=_part)
