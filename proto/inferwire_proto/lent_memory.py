"""Memory that a client lends to a server on the same host: what file is behind it, and how each side maps it.

The file is a `memfd` with the name and the seals below, so that it cannot be truncated: reading a mapping beyond the
end of its file kills the process. Tensors lie at its beginning; its last bytes are a nonce. Knows neither calls nor
tensors.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any, TypeAlias

import numpy as np

NAME = "inferwire"
"""What the file is called."""

SEALS = 0x1 | 0x2 | 0x4
"""F_SEAL_SEAL, F_SEAL_SHRINK and F_SEAL_GROW of Linux: the file keeps its size, and these seals."""

NONCE_BYTES = 16
"""How long the nonce is."""

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

_PROT_READ, _PROT_WRITE = 0x1, 0x2
_MAP_SHARED, _MAP_PRIVATE, _MAP_FIXED = 0x1, 0x2, 0x10
"""Linux's numbers. The module `mmap` lacks the last, and on Windows, where this is imported and not used, all."""

_FAILED = ctypes.c_void_p(-1).value


class Mapping:
    """A file that is mapped as long as an array of it is held. Unlike `mmap.mmap` it needs no open file for that.

    Both sides map it writable, as tensors are in openvino's own process: if an inference ever changed its input, the
    client would see that, and the server would not crash.

    Raises:
        OSError: If there is no room for it.
    """

    def __init__(self, descriptor: int, byte_size: int) -> None:
        self._byte_size = byte_size
        self._address = 0
        self._unmap = _libc().munmap
        self._address = _map(None, byte_size, _MAP_SHARED, descriptor)

    def __repr__(self) -> str:
        return f"<Mapping of {self._byte_size} bytes at {self._address:#x}>"

    def __del__(self) -> None:
        # Cleared first, because another thread may fork meanwhile: the child must not map the file at an address that
        # is used for something else by then.
        address, self._address = self._address, 0
        if address:
            self._unmap(address, self._byte_size)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Tell numpy where it is; arrays made of it keep it alive."""
        return {"version": 3, "typestr": "|u1", "shape": (self._byte_size,), "data": (self._address, False)}

    @property
    def bytes(self) -> Bytes:
        """All of it."""
        return np.asarray(self)

    def become_private(self, descriptor: int) -> None:
        """Map the file at the same address as private, so that what this process writes there stays its own.

        A page that this process has not written yet still shows what others write. If the system has no room for pages
        of its own, the mapping becomes read-only, and a write ends the process.

        Raises:
            OSError: If neither can be had.
        """
        if not self._address:
            return
        try:
            _map(self._address, self._byte_size, _MAP_PRIVATE | _MAP_FIXED, descriptor)
        except OSError:
            if _libc().mprotect(self._address, self._byte_size, _PROT_READ):
                raise


def _map(address: int | None, byte_size: int, flags: int, descriptor: int) -> int:
    protection = _PROT_READ | _PROT_WRITE
    found: int | None = _libc().mmap(address, byte_size, protection, flags, descriptor, 0)
    if found is None or found == _FAILED:
        number = ctypes.get_errno() or errno.ENOMEM
        raise OSError(number, os.strerror(number))
    return found


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc
