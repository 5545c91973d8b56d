"""Elements that come in the typed fields of an Open Inference Protocol message, as a tensor's bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inferwire_proto import strings
from inferwire_proto.element_types import ElementType
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import invalid_input
from inferwire_server.transport.oip import check_count
from inferwire_server.transport.oip_stubs import grpc_service_pb2 as pb


@dataclass(frozen=True, slots=True)
class _Field:
    """Where the elements of a type are, and what numpy reads them as."""

    name: str
    dtype: type[np.generic]


_FIELDS = {
    "BOOL": _Field("bool_contents", np.bool_),
    "INT8": _Field("int_contents", np.int32),
    "INT16": _Field("int_contents", np.int32),
    "INT32": _Field("int_contents", np.int32),
    "INT64": _Field("int64_contents", np.int64),
    "UINT8": _Field("uint_contents", np.uint32),
    "UINT16": _Field("uint_contents", np.uint32),
    "UINT32": _Field("uint_contents", np.uint32),
    "UINT64": _Field("uint64_contents", np.uint64),
    "FP32": _Field("fp32_contents", np.float32),
    "FP64": _Field("fp64_contents", np.float64),
}


def typed_tensor(element_type: ElementType, header: pb.ModelInferRequest.InferInputTensor, model_name: str) -> Tensor:
    """Read an input whose elements are in its contents.

    Raises:
        ServingError: INVALID_INPUT.
    """
    shape = tuple(header.shape)
    if element_type.is_string:
        elements: Sequence[bytes] = header.contents.bytes_contents
        check_count(len(elements), shape, header.datatype, header.name, model_name)
        return Tensor(element_type, shape, strings.pack(elements))
    field = _FIELDS.get(header.datatype)
    if field is None:
        raise invalid_input(
            f"input '{header.name}' of model '{model_name}' has datatype {header.datatype}, "
            "which has no field in contents; send it in raw_input_contents"
        )
    numbers = np.array(getattr(header.contents, field.name), field.dtype)
    check_count(len(numbers), shape, header.datatype, header.name, model_name)
    return Tensor(element_type, shape, _narrowed(numbers, element_type, header, model_name).tobytes())


def _narrowed(
    numbers: np.ndarray[Any, np.dtype[np.generic]],
    element_type: ElementType,
    header: pb.ModelInferRequest.InferInputTensor,
    model_name: str,
) -> np.ndarray[Any, np.dtype[np.generic]]:
    """Give the elements their own width, once all of them fit it."""
    narrow = numbers.astype(element_type.storage_dtype)
    if narrow.itemsize < numbers.itemsize and not np.array_equal(narrow, numbers):
        wrong = numbers[narrow != numbers][0]
        raise invalid_input(
            f"input '{header.name}' of model '{model_name}' has the element {wrong}, which no {header.datatype} can be"
        )
    return narrow
