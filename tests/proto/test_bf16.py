"""bf16 is rounded to the nearest, as OpenVINO does on processors that have instructions for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from openvino import opset13

from inferwire_proto import bf16

ops: Any = opset13


@pytest.fixture(scope="module")
def convert() -> Any:
    """Round float32 to bf16 on the CPU device."""
    if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        pytest.skip("without instructions for bf16, OpenVINO cuts some numbers off instead of rounding them")
    x = ops.parameter([-1], np.float32)
    model = openvino.Model([ops.convert(x, "bf16")], [x])  # pyright: ignore[reportGeneralTypeIssues]
    return openvino.Core().compile_model(model, "CPU")


def of_bits(*bits: int) -> NDArray[np.float32]:
    return np.array(bits, np.uint32).view(np.float32)


def numbers_of(seed: int) -> NDArray[np.float32]:
    """Give numbers of all sizes, among them those that are hard to round."""
    numbers = of_bits(*np.random.default_rng(seed).integers(0, 2**32, 10_000, np.uint32))
    ties = of_bits(0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0xBF808000, 0xBF818000)
    edges = of_bits(0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0, 0x80000000)
    nans = of_bits(0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF)
    return np.concatenate([numbers, ties, edges, nans])


@pytest.mark.parametrize("seed", range(3))
def test_numbers_are_rounded_as_openvino_does(convert: Any, seed: int) -> None:
    numbers = numbers_of(seed)
    is_subnormal = (numbers != 0) & (np.abs(numbers) < np.finfo(np.float32).tiny)
    numbers = numbers[~is_subnormal]  # OpenVINO makes zeros of them
    expected, rounded = convert(numbers)[0], bf16.from_float32(numbers)
    np.testing.assert_array_equal(bf16.to_float32(rounded), bf16.to_float32(expected))


@pytest.mark.parametrize("seed", range(3))
def test_numbers_are_rounded_to_the_nearest_and_to_even_on_a_tie(seed: int) -> None:
    numbers = numbers_of(seed)
    rounded = bf16.to_float32(bf16.from_float32(numbers))
    np.testing.assert_array_equal(np.isnan(rounded), np.isnan(numbers))
    numbers, rounded = numbers[np.isfinite(numbers)], rounded[np.isfinite(numbers)]
    below = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    near, far = (_exact(elements) for elements in (below, below + np.uint16(1)))
    to_near, to_far = np.abs(numbers - near), np.abs(far - numbers)
    expected = np.where((to_near < to_far) | ((to_near == to_far) & (below % 2 == 0)), near, far)
    is_finite = np.abs(expected) < 2.0**128
    np.testing.assert_array_equal(rounded[is_finite], expected[is_finite])
    np.testing.assert_array_equal(rounded[~is_finite], np.copysign(np.inf, expected[~is_finite]))


def _exact(elements: NDArray[np.uint16]) -> NDArray[np.float64]:
    """Give the numbers that elements are by the definition; the element of infinity is the next power of two."""
    exponent, fraction = (elements >> 7 & 0xFF).astype(int), (elements & 0x7F) / 128.0
    sign = np.where(elements >> 15, -1.0, 1.0)
    return sign * np.where(exponent == 0, np.ldexp(fraction, -126), np.ldexp(1 + fraction, exponent - 127))


@given(st.integers(0, 2**16 - 1))
def test_there_and_back_is_the_same(bits: int) -> None:
    element = np.array(bits, np.uint16)
    number = bf16.to_float32(element)
    back = bf16.from_float32(number)
    assert (number.shape, back.shape) == ((), ())
    assert int(number.view(np.uint32)) == bits << 16
    assert int(back) == (bits | 0x40 if np.isnan(number) else bits)


def test_elements_may_lie_apart_and_be_taken_for_halves() -> None:
    elements = np.array([[0x3F80, 0], [0xC020, 0]], np.uint16).view(np.float16)
    assert bf16.to_float32(elements[:, 0]).tolist() == [1.0, -2.5]
    assert bf16.from_float32(np.array([[1.0, 0.0], [-2.5, 0.0]], np.float32)[:, 0]).tolist() == [0x3F80, 0xC020]
