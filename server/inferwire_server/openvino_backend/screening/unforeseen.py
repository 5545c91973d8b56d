"""What the compiler cannot foresee: it neither leaves out nor settles ahead what depends on it."""

from __future__ import annotations

from typing import Any

import numpy as np
from openvino import opset13

op: Any = opset13


def never(value: Any) -> Any:
    """Compute what is never so, of a value's elements: a use of its shape does not count, which is known ahead.

    No element is less than itself, which the compiler does not know.
    """
    element = op.slice(op.reshape(value, np.array([-1]), False), np.array([0]), np.array([1]), np.array([1]))
    most = op.reduce_max(op.convert(element, "f32"), np.int64(0))
    return op.less(most, most)
