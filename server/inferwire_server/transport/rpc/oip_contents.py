"""Turns elements in the typed fields of an Open Inference Protocol message into a tensor's bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from inferwire_proto import strings
from inferwire_proto.element_types import ElementType
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import invalid_input
from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb
from inferwire_server.transport.oip.datatypes import check_count

_AT_ONCE = 1 << 16
"""How many elements are read at once: in between, other threads have their turn."""

_Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.generic]]


@dataclass(frozen=True, slots=True)
class _Field:
    """Where the elements of a type are, and what numpy reads them as.

    Attributes:
        is_as_sent: Whether the elements are on the wire as they are in a tensor.
    """

    name: str
    dtype: type[np.generic]
    is_as_sent: bool = False


_FIELDS = {
    "BOOL": _Field("bool_contents", np.bool_, is_as_sent=True),
    "INT8": _Field("int_contents", np.int32),
    "INT16": _Field("int_contents", np.int32),
    "INT32": _Field("int_contents", np.int32),
    "INT64": _Field("int64_contents", np.int64),
    "UINT8": _Field("uint_contents", np.uint32),
    "UINT16": _Field("uint_contents", np.uint32),
    "UINT32": _Field("uint_contents", np.uint32),
    "UINT64": _Field("uint64_contents", np.uint64),
    "FP32": _Field("fp32_contents", np.float32, is_as_sent=True),
    "FP64": _Field("fp64_contents", np.float64, is_as_sent=True),
}


def typed_tensor(element_type: ElementType, header: pb.ModelInferRequest.InferInputTensor, model_name: str) -> Tensor:
    """Read an input whose elements are in its contents.

    Raises:
        ServingError: INVALID_INPUT.
    """
    shape = tuple(header.shape)
    if element_type.is_string:
        _check_field("bytes_contents", header, model_name)
        elements: Sequence[bytes] = header.contents.bytes_contents
        check_count(len(elements), shape, header.datatype, header.name, model_name)
        return Tensor(element_type, shape, strings.pack(elements))
    field = _FIELDS.get(header.datatype)
    if field is None:
        raise invalid_input(
            f"input '{header.name}' of model '{model_name}' has datatype {header.datatype}, "
            "which has no field in contents; send it in raw_input_contents"
        )
    _check_field(field.name, header, model_name)
    elements = getattr(header.contents, field.name)
    check_count(len(elements), shape, header.datatype, header.name, model_name)
    data = _as_sent(header.contents, len(elements) * np.dtype(field.dtype).itemsize) if field.is_as_sent else None
    if data is None:
        numbers = _numbers(elements, field.dtype)
        data = _narrowed(numbers, element_type, header, model_name).tobytes()
    return Tensor(element_type, shape, data)


def _check_field(name: str, header: pb.ModelInferRequest.InferInputTensor, model_name: str) -> None:
    """Refuse elements in any other field than this."""
    filled = [field.name for field, _ in header.contents.ListFields()]
    if any(field != name for field in filled):
        raise invalid_input(
            f"input '{header.name}' of model '{model_name}' has elements in {' and '.join(filled)}, "
            f"expected them in {name} alone for {header.datatype}"
        )


def _as_sent(contents: pb.InferTensorContents, byte_size: int) -> bytes | None:
    """Give the `byte_size` bytes of the elements as protobuf writes them; None if it writes anything besides them."""
    written = contents.SerializeToString()
    lead = 1 + -(-byte_size.bit_length() // 7)  # the field's key, and seven bits of the length in each byte
    return written[lead:] if len(written) == lead + byte_size else None


def _numbers(elements: Sequence[Any], dtype: type[np.generic]) -> _Numbers:
    numbers = np.empty(len(elements), dtype)
    for start in range(0, len(elements), _AT_ONCE):
        numbers[start : start + _AT_ONCE] = elements[start : start + _AT_ONCE]
    return numbers


def _narrowed(
    numbers: _Numbers,
    element_type: ElementType,
    header: pb.ModelInferRequest.InferInputTensor,
    model_name: str,
) -> _Numbers:
    """Give the elements their own width, once all of them fit it."""
    narrow = numbers.astype(element_type.storage_dtype)
    if narrow.itemsize < numbers.itemsize and not np.array_equal(narrow, numbers):
        wrong = numbers[narrow != numbers][0]
        raise invalid_input(
            f"input '{header.name}' of model '{model_name}' has the element {wrong}, which no {header.datatype} can be"
        )
    return narrow
