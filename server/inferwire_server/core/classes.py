"""An output as classes: the largest values of each row, with their positions and labels.

A row is what one step along the first dimension holds; a tensor with one dimension is one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.tensors import Tensor, numbers

_STRING = BY_NAME["string"]


def top_classes(tensor: Tensor, count: int, labels: Sequence[str] = ()) -> Tensor:
    """Give at most `count` classes of each row, the largest first, as "value:position" or "value:position:label".

    Equal values come in the order of their positions, and NaN after all numbers. Labels are written if there is
    one for each element of a row.
    """
    rows = tensor.shape[0] if len(tensor.shape) > 1 else 1
    width = prod(tensor.shape[1:]) if len(tensor.shape) > 1 else prod(tensor.shape)
    kept = min(count, width)
    values = numbers(tensor).reshape(rows, width)
    names = labels if len(labels) == width else ()
    texts = [
        f"{values[row, position]!s}:{position}:{names[position]}" if names else f"{values[row, position]!s}:{position}"
        for row in range(rows)
        for position in _largest(values[row], kept)
    ]
    shape = (rows, kept) if len(tensor.shape) > 1 else (kept,)
    return Tensor(_STRING, shape, strings.pack(text.encode() for text in texts))


def _largest(row: np.ndarray[Any, np.dtype[Any]], count: int) -> list[int]:
    if row.dtype.kind == "f":
        return np.argsort(-row, kind="stable")[:count].tolist()
    # Not every integer can be negated. Sorting the reversed row and reversing the result keeps equal ones in order.
    backwards = np.argsort(row[::-1], kind="stable")[::-1][:count]
    return (row.size - 1 - backwards).tolist()
