"""Whether bytes are a tensor of the type and shape that they are said to be, whatever model it is for.

The sentences of its errors begin with a `prefix`, which names the tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from inferwire_proto import strings
from inferwire_server.core.limits import INT64_MAX
from inferwire_server.core.tensors import LARGE, MOST_DIMENSIONS, Tensor, describe, write_shape
from inferwire_server.errors import ServingError, invalid_input

_MOST_ELEMENTS = 2**56
"""How many elements a shape with a 0 in it may have without its zeros. Runtimes cannot address more, though the tensor
is empty."""

_FEW_BYTES = 1 << 12
"""Up to how many bytes of booleans are checked faster without numpy."""

ADVICE_ON_PICTURES = "; a JPEG or PNG file is for a model whose settings have encoded = true"
"""What the caller is told who sends a picture's file to a model that takes its pixels."""

MOST_STRINGS = 1 << 13
"""How many strings of an input are looked at before it is admitted, in about a millisecond."""

_PICTURES = (b"\xff\xd8\xff", b"\x89PNG")
"""What the files of pictures begin with."""


def is_left_to_slot(tensor: Tensor) -> bool:
    """Whether a tensor has so many strings or booleans that the slot checks them as it reads them, not the event loop.

    A tensor with fewer bytes than these need is not left to the slot: it is refused at once.
    """
    if tensor.element_type.is_string:
        return MOST_STRINGS < prod(tensor.shape) <= tensor.byte_size // strings.LENGTH_BYTES
    return tensor.element_type.name == "boolean" and LARGE < tensor.byte_size == prod(tensor.shape)


def strings_of(prefix: str, tensor: Tensor) -> Iterator[bytes]:
    """Give the strings of a tensor, one at a time.

    Raises:
        ServingError: INVALID_INPUT with a sentence that starts with `prefix`, after the strings before the wrong one.
    """
    try:
        yield from strings.each(tensor.data, prod(tensor.shape))
    except ValueError as error:
        raise _no_tensor(prefix, tensor, error) from error


def check_shape(prefix: str, shape: Sequence[int]) -> None:
    """Refuse a shape that no tensor has. Python can write the number of elements of a shape that has passed.

    Raises:
        ServingError: INVALID_INPUT with a sentence that starts with `prefix`.
    """
    if len(shape) > MOST_DIMENSIONS:
        raise invalid_input(f"{prefix} has {len(shape)} dimensions, expected at most {MOST_DIMENSIONS}")
    if any(not 0 <= length <= INT64_MAX for length in shape):
        raise invalid_input(f"{prefix} has shape {write_shape(shape)}, expected dimensions from 0 to {INT64_MAX}")
    if 0 in shape and prod(length or 1 for length in shape) > _MOST_ELEMENTS:
        raise invalid_input(
            f"{prefix} has shape {write_shape(shape)}, expected at most {_MOST_ELEMENTS} elements beside its zeros"
        )


def check_content(prefix: str, tensor: Tensor) -> None:
    """Refuse bytes that are no tensor of the stated type and shape, which has been checked.

    Raises:
        ServingError: INVALID_INPUT with a sentence that starts with `prefix`.
    """
    if tensor.element_type.is_string:
        count, most = prod(tensor.shape), tensor.byte_size // strings.LENGTH_BYTES
        if count > most > MOST_STRINGS:
            too_few = ValueError(f"{tensor.byte_size} bytes are too few for {count} strings")
            raise _no_tensor(prefix, tensor, too_few)
        try:
            strings.check(tensor.data, count)
        except ValueError as error:
            raise _no_tensor(prefix, tensor, error) from error
        return
    expected = tensor.element_type.byte_size(tensor.shape)
    if tensor.byte_size != expected:
        what = describe(tensor.element_type, tensor.shape)
        advice = advice_on_picture(tensor.data)
        raise invalid_input(f"{prefix} has {tensor.byte_size} bytes, expected {expected} for {what}{advice}")
    if tensor.element_type.name == "boolean" and not _are_booleans(tensor):
        raise invalid_input(f"{prefix} has a boolean that is neither 0 nor 1")


def advice_on_picture(data: bytes | bytearray | memoryview) -> str:
    """Say which models take a picture's file if the bytes are one, sent in place of its pixels; else nothing."""
    is_picture = bytes(data[:4]).startswith(_PICTURES)
    return ADVICE_ON_PICTURES if is_picture else ""


def _are_booleans(tensor: Tensor) -> bool:
    if tensor.byte_size <= _FEW_BYTES:
        return not bytes(tensor.data).strip(b"\0\1")
    return int(np.frombuffer(tensor.in_one_piece().data, np.uint8).max()) <= 1


def _no_tensor(prefix: str, tensor: Tensor, error: ValueError) -> ServingError:
    return invalid_input(f"{prefix} is no {describe(tensor.element_type, tensor.shape)}: {error}")
