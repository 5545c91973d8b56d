"""The protocol's datatypes, and elements that are as many as their shape says."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType

from inferwire_proto.element_types import BY_NAME, BY_OIP, ElementType
from inferwire_server.core.tensor_checks import check_shape
from inferwire_server.core.tensors import MOST_DIMENSIONS, write_shape
from inferwire_server.errors import invalid_input

_NAMES_ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "bfloat16": "BF16",
        "float16": "FP16",
        "half": "FP16",
        "float32": "FP32",
        "float": "FP32",
        "float64": "FP64",
        "double": "FP64",
        "str": "BYTES",
    }
)
"""Names of datatypes in numpy and elsewhere, which neither the protocol nor OpenVINO uses."""


def datatype_of(element_type: ElementType) -> str:
    """Give the protocol's name of a type, or OpenVINO's in capitals where the protocol has none."""
    return element_type.oip or element_type.name.upper()


def input_type(datatype: str, input_name: str, model_name: str) -> ElementType:
    """Give the element type of a datatype that an input states.

    Raises:
        ServingError: INVALID_INPUT for a name that the protocol does not have.
    """
    element_type = BY_OIP.get(datatype)
    if element_type is not None:
        return element_type
    prefix = f"input '{input_name}' of model '{model_name}' has datatype '{datatype}'"
    row = BY_NAME.get(datatype.lower())
    if row is not None and row.oip is None:
        raise invalid_input(f"{prefix}, which the Open Inference Protocol cannot carry; use inferwire.v1 for it")
    meant = _meant(datatype) if row is None else row.oip
    hint = "" if meant is None else f"; did you mean {meant}?"
    raise invalid_input(f"{prefix}, expected one of {' '.join(BY_OIP)}{hint}")


def check_count(count: int, shape: tuple[int, ...], datatype: str, input_name: str, model_name: str) -> None:
    """Refuse elements whose number is not the shape's, and a shape that no tensor has.

    Raises:
        ServingError: INVALID_INPUT.
    """
    if len(shape) <= MOST_DIMENSIONS and count == prod(shape) and min(shape, default=0) >= 0:
        return
    prefix = f"input '{input_name}' of model '{model_name}'"
    check_shape(prefix, shape)
    raise invalid_input(f"{prefix} has {count} elements, expected {prod(shape)} for {datatype}{write_shape(shape)}")


def _meant(datatype: str) -> str | None:
    """Guess the protocol's name of a datatype that TensorFlow, a model configuration or others write differently."""
    name = datatype.upper().removeprefix("TYPE_")
    return name if name in BY_OIP else _NAMES_ELSEWHERE.get(name.lower())
