"""Elements of less than a byte are packed as openvino packs them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import helpers

WIDTHS = {"u1": 1, "u2": 2, "u3": 3, "u4": 4, "u6": 6, "i4": 4, "nf4": 4, "f4e2m1": 4}


@pytest.mark.parametrize("count", [0, 1, 3, 8, 24, 25])
@pytest.mark.parametrize("name", WIDTHS)
def test_elements_are_packed_and_unpacked(ov: Any, name: str, count: int) -> None:
    low, high = (-8, 8) if name == "i4" else (0, 2 ** WIDTHS[name])
    values = np.random.default_rng(0).integers(low, high, count)
    packed = ov.helpers.pack_data(values, getattr(ov.Type, name))
    expected = helpers.pack_data(values, getattr(openvino.Type, name))
    assert packed.tolist() == expected.tolist()
    assert packed.dtype == expected.dtype
    unpacked = ov.helpers.unpack_data(packed, getattr(ov.Type, name), [count])
    assert unpacked.tolist() == values.tolist()
    assert unpacked.dtype == (np.int8 if name == "i4" else np.uint8)


def test_a_tensor_is_filled_with_them(ov: Any) -> None:
    tensor = ov.Tensor(ov.helpers.pack_data(np.array([[7, 8], [1, 2]]), ov.Type.u4), [2, 2], ov.Type.u4)
    assert ov.helpers.unpack_data(tensor.data, tensor.element_type, tensor.shape).tolist() == [[7, 8], [1, 2]]


def test_values_that_are_no_integers_are_refused(ov: Any) -> None:
    with pytest.raises(RuntimeError, match="results in rounding"):
        ov.helpers.pack_data(np.array([1.5, 2.0]), ov.Type.u4)


@pytest.mark.parametrize("function", ["pack_data", "unpack_data"])
def test_types_of_whole_bytes_are_refused(ov: Any, function: str) -> None:
    with pytest.raises(AssertionError):
        getattr(ov.helpers, function)(np.array([1], np.uint8), ov.Type.f32, *([1] if function == "unpack_data" else []))


def test_a_file_is_a_tensor(ov: Any, tmp_path: Path) -> None:
    file = tmp_path / "some.bin"
    file.write_bytes(b"\x00\x01\xff")
    tensor = ov.tensor_from_file(str(file))
    assert (tensor.data.tolist(), tensor.element_type.type_name) == ([0, 1, 255], "u8")


def test_errors_are_where_programs_look_for_them(ov: Any) -> None:
    exceptions = import_module(f"{ov.__name__}.exceptions")
    assert issubclass(exceptions.OVTypeError, TypeError | exceptions.OVError)
    assert issubclass(exceptions.UserInputError, exceptions.OVError)


@pytest.mark.parametrize("dimension", ["batch", "channels", "depth", "height", "width"])
def test_a_layout_tells_where_a_dimension_is(ov: Any, dimension: str) -> None:
    layout = ov.Layout("N...DHWC")
    helper = ov.layout_helpers
    assert getattr(helper, f"has_{dimension}")(layout) is True
    assert getattr(helper, f"has_{dimension}")(ov.Layout("?")) is False
    expected = getattr(openvino.layout_helpers, f"{dimension}_idx")(openvino.Layout("N...DHWC"))
    assert getattr(helper, f"{dimension}_idx")(layout) == expected
