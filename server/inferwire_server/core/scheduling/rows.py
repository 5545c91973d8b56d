"""The rows of tensors, which are what their first dimension counts: counted, put together and cut apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

from inferwire_proto import strings
from inferwire_proto.element_types import ElementType
from inferwire_server.core.scheduling.job import Work
from inferwire_server.core.tensors import Tensor


def count_rows(work: Work) -> int:
    """Count the rows of work: each of its inputs has as many."""
    return work.inputs[0].shape[0]


def concat_rows(tensors: Sequence[Tensor]) -> Tensor:
    """Put the rows of tensors that are otherwise alike one behind the other: a copy."""
    first = tensors[0]
    rows = sum(tensor.shape[0] for tensor in tensors)
    return Tensor(first.element_type, (rows, *first.shape[1:]), b"".join([tensor.data for tensor in tensors]))


def slice_rows(tensor: Tensor, rows: Sequence[int]) -> list[Tensor]:
    """Cut a tensor into pieces of so many rows each, without a copy."""
    data, starts, tail = memoryview(tensor.data), _row_starts(tensor), tensor.shape[1:]
    ends = list(accumulate(rows))
    return [
        Tensor(tensor.element_type, (count, *tail), data[starts[end - count] : starts[end]])
        for count, end in zip(rows, ends, strict=True)
    ]


def has_whole_rows(element_type: ElementType, shape: Sequence[int]) -> bool:
    """Whether no byte has elements of two rows in it."""
    return element_type.unit_elements == 1 or prod(shape[1:]) % element_type.unit_elements == 0


def _row_starts(tensor: Tensor) -> Sequence[int]:
    """Say at which byte each row begins, and where the last one ends."""
    count = tensor.shape[0]
    if tensor.element_type.is_string:
        rows = strings.cut(memoryview(tensor.data), prod(tensor.shape[1:]), count)
        return [0, *accumulate(row.nbytes for row in rows)]
    size = tensor.byte_size // count
    return range(0, size * count + 1, size) if size else [0] * (count + 1)
