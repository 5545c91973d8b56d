"""The table of element types against OpenVINO, numpy and the contract."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest

from inferwire_proto.element_types import BY_NAME, BY_OIP, BY_WIRE, ELEMENT_TYPES, ElementType
from inferwire_proto.inferwire.v1 import types_pb2

SIZED = [row for row in ELEMENT_TYPES if not row.is_string]


def by_name(row: ElementType) -> str:
    return row.name


@pytest.mark.parametrize("row", ELEMENT_TYPES, ids=by_name)
def test_a_row_is_a_type_of_the_contract_and_of_openvino(row: ElementType) -> None:
    assert types_pb2.ElementType.Name(types_pb2.ElementType.ValueType(row.wire)) == f"ELEMENT_TYPE_{row.name.upper()}"
    assert getattr(ov.Type, row.name).get_type_name() == row.name
    assert BY_NAME[row.name] is BY_WIRE[row.wire] is row


@pytest.mark.parametrize("row", SIZED, ids=by_name)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 0)])
def test_a_tensor_has_as_many_bytes_as_in_openvino(row: ElementType, shape: tuple[int, ...]) -> None:
    tensor = ov.Tensor(getattr(ov.Type, row.name), ov.Shape(list(shape)))
    assert row.byte_size(shape) == tensor.byte_size
    assert row.bits == tensor.element_type.bitwidth


@pytest.mark.parametrize("row", [row for row in SIZED if not row.is_packed], ids=by_name)
def test_the_storage_is_what_openvino_shows(row: ElementType) -> None:
    assert row.storage_dtype.itemsize == ov.Tensor(getattr(ov.Type, row.name), ov.Shape([1])).data.itemsize


def test_every_number_of_the_contract_is_in_the_table() -> None:
    assert set(types_pb2.ElementType.values()) == {0, *BY_WIRE}


def test_the_protocols_names_are_its_thirteen_and_bf16() -> None:
    numbers = {f"{kind}{bits}" for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)}
    assert set(BY_OIP) == {"BOOL", "FP16", "FP32", "FP64", "BF16", "BYTES"} | numbers


def test_strings_have_no_size_of_their_own() -> None:
    with pytest.raises(TypeError, match="depends on its content"):
        BY_NAME["string"].byte_size((1,))
    with pytest.raises(TypeError, match="no fixed-size storage"):
        _ = BY_NAME["string"].storage_dtype


def test_numbers_are_little_endian() -> None:
    assert BY_NAME["u32"].storage_dtype == np.dtype("<u4")
