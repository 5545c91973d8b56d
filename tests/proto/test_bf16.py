"""bf16 is what OpenVINO makes of it."""

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
    x = ops.parameter([-1], np.float32)
    model = openvino.Model([ops.convert(x, "bf16")], [x])  # pyright: ignore[reportGeneralTypeIssues]
    return openvino.Core().compile_model(model, "CPU")


def of_bits(*bits: int) -> NDArray[np.float32]:
    return np.array(bits, np.uint32).view(np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_numbers_are_rounded_as_openvino_does(convert: Any, seed: int) -> None:
    numbers = of_bits(*np.random.default_rng(seed).integers(0, 2**32, 10_000, np.uint32))
    ties = of_bits(0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0xBF808000, 0xBF818000)
    edges = of_bits(0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0, 0x80000000)
    nans = of_bits(0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF)
    numbers = np.concatenate([numbers, ties, edges, nans])
    is_subnormal = (numbers != 0) & (np.abs(numbers) < np.finfo(np.float32).tiny)
    numbers = numbers[~is_subnormal]  # OpenVINO makes zeros of them
    expected, rounded = convert(numbers)[0], bf16.from_float32(numbers)
    np.testing.assert_array_equal(bf16.to_float32(rounded), bf16.to_float32(expected))


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
