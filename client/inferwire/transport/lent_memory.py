"""Memory that a server on this host may read in place: made, known again in what is to be sent, and closed.

A forked child gets a copy of it at the same place, as of any other memory, and lends it to nobody. Knows no server.
"""

from __future__ import annotations

import os
import secrets
import sys
import weakref
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from inferwire.process import CAN_FORK, THIS
from inferwire_proto.lent_memory import NAME, NONCE_BYTES, SEALS, Bytes, Mapping

MOST_FILES = 256
"""How many pieces of memory there are at the most: each takes an open file, of which a process has about a thousand."""

_ids = count(1)
_open: set[int] = set()
_mappings: dict[int, weakref.ref[Mapping]] = {}


class LentMemory:
    """So many bytes of zeros, and the file behind them.

    Attributes:
        id: Its name, which no other has in this process.
        pid: The process that may lend it.
        descriptor: The number of the file.
        byte_size: How large the file is.
        nonce: What is at the file's end.
    """

    def __init__(self, byte_size: int) -> None:
        self.id = next(_ids)
        self.pid = THIS.pid
        self.byte_size = byte_size + NONCE_BYTES
        self.nonce = secrets.token_bytes(NONCE_BYTES)
        self.descriptor = descriptor = _new_file(self.byte_size)
        _open.add(descriptor)
        weakref.finalize(self, _close, descriptor, self.pid).atexit = False
        mapping = Mapping(descriptor, self.byte_size)
        _mappings[self.id] = weakref.ref(mapping, partial(_mappings.pop, self.id))
        self._bytes = mapping.bytes
        self._bytes[byte_size:] = np.frombuffer(self.nonce, np.uint8)

    def __repr__(self) -> str:
        return f"<LentMemory {self.id}: {self.byte_size - NONCE_BYTES} bytes in file {self.descriptor}>"

    def elements(self, dtype: np.dtype[Any], size: int) -> np.ndarray[Any, Any]:
        """Give so many elements at its beginning."""
        return self._bytes[: size * dtype.itemsize].view(dtype)

    def wire_data(self, byte_size: int) -> memoryview:
        """Give so many bytes at its beginning; `memory_behind` then knows what they are of."""
        exporter = self._bytes.view(_Exporter)
        exporter.memory = self
        return exporter.data[:byte_size].toreadonly()


Lend: TypeAlias = Callable[[int], LentMemory | None]
"""Gives memory of so many bytes that a server may read in place; None where ordinary memory is as good."""


class _Exporter(np.ndarray[Any, np.dtype[np.uint8]]):
    """What a memoryview names as its origin."""

    memory: LentMemory


def memory_behind(data: memoryview | bytes) -> LentMemory | None:
    """Give the memory that what is to be sent lies in, where this process can lend it."""
    exporter = data.obj if isinstance(data, memoryview) else None
    if isinstance(exporter, _Exporter) and exporter.memory.pid == THIS.pid:
        return exporter.memory
    return None


def new_memory(byte_size: int) -> LentMemory | None:
    """Make memory; none where the system has no such, or this process has much of it already."""
    if len(_open) >= MOST_FILES:
        return None
    try:
        return LentMemory(byte_size)
    except OSError:
        return None


def _new_file(byte_size: int) -> int:
    if sys.platform != "linux":
        raise OSError("this system has no memory with a name")
    import fcntl

    descriptor = os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, byte_size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _close(descriptor: int, pid: int) -> None:
    """Close a file; a forked child has closed what it got of its parent's, and may use the number for others."""
    if pid == THIS.pid:
        _open.discard(descriptor)
        os.close(descriptor)


class _Fork:
    """What a child gets instead of memory that its parent goes on writing to."""

    def __init__(self) -> None:
        self._copies: list[tuple[Mapping, Bytes]] = []
        os.register_at_fork(before=self._copy, after_in_parent=self._copies.clear, after_in_child=self._part)

    def _copy(self) -> None:
        mappings = [found for each in tuple(_mappings.values()) if (found := each()) is not None]
        self._copies += [(mapping, mapping.bytes.copy()) for mapping in mappings]

    def _part(self) -> None:
        for mapping, content in self._copies:
            mapping.become_private(content)
        self._copies.clear()
        for descriptor in _open:
            os.close(descriptor)
        _open.clear()
        _mappings.clear()


_FORK = _Fork() if CAN_FORK else None
