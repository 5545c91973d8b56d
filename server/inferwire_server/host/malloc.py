"""Tells glibc's allocator to keep big blocks, which tensors of some hundred kilobytes live on.

By default it gives each block back to the kernel when freed, and maps and clears pages anew for the
next one: over half of the CPU time of a request with 600 KB.
"""

from __future__ import annotations

import ctypes
import ctypes.util

_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3

_MMAP_THRESHOLD_BYTES = 32 * 1024 * 1024  # the most glibc takes
_TRIM_THRESHOLD_BYTES = 256 * 1024 * 1024
_TOP_PAD_BYTES = 16 * 1024 * 1024


def keep_big_blocks() -> bool:
    """Set the thresholds; say whether the C library is one that has them."""
    name = ctypes.util.find_library("c")
    mallopt = getattr(ctypes.CDLL(name), "mallopt", None) if name else None
    if mallopt is None:
        return False
    options = (
        (_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES),
        (_M_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES),
        (_M_TOP_PAD, _TOP_PAD_BYTES),
    )
    return all(mallopt(option, value) == 1 for option, value in options)
