"""Elements of bf16, which numpy lacks, as float32: the bits of a bf16 are the upper half of those of a float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_float32(elements: NDArray[Any]) -> NDArray[np.float32]:
    """Give the numbers that two-byte elements are when read as bf16, whatever their dtype is."""
    bits = elements.view(np.uint16).astype(np.uint32)
    bits <<= np.uint32(16)
    return bits.view(np.float32)


def from_float32(numbers: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round numbers as OpenVINO's Convert does: to the nearest, to even on a tie, to infinity beyond the largest.

    Differs from OpenVINO: numbers nearer to zero than all normal ones are not made zeros. If the processor has no
    instructions for bf16, OpenVINO cuts off what lies above an even element, and makes numbers of some NaN.
    """
    bits = numbers.view(np.uint32)
    nearest = bits + (0x7FFF + (bits >> 16 & 1))
    return np.where(np.isnan(numbers), bits >> 16 | 0x40, nearest >> 16).astype(np.uint16)
