"""Tensors as values: their size and how they read."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.waiting import LIMIT_S

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.tensors import Tensor, describe, write_shape, zero_tensor


@pytest.mark.parametrize("data", [bytes(8), memoryview(bytes(8)), memoryview(bytes(8)).cast("f")])
def test_its_size_is_in_bytes_whatever_holds_them(data: bytes | memoryview) -> None:
    assert Tensor(BY_NAME["f32"], (2,), data).byte_size == 8


@pytest.mark.parametrize(
    ("data", "is_copied"),
    [
        (bytes(8), False),
        (memoryview(bytes(8)), False),
        (memoryview(bytearray(8)).cast("f"), False),
        (memoryview(bytes(9))[:8], True),
        (memoryview(bytes(9))[1:][:8], True),
    ],
)
def test_on_its_own_it_keeps_no_more_in_memory_than_it_has(data: bytes | memoryview, is_copied: bool) -> None:
    given = Tensor(BY_NAME["f32"], (2,), data)
    alone = given.on_its_own()
    assert (alone.shape, bytes(alone.data)) == ((2,), bytes(8))
    assert (alone.data is not data) is is_copied
    assert memoryview(memoryview(alone.data).obj).nbytes == 8


def test_its_repr_names_type_shape_and_size() -> None:
    assert repr(Tensor(BY_NAME["i64"], (2, 3), bytes(48))) == "<Tensor i64[2,3]: 48 bytes>"


def test_a_shape_that_no_tensor_has_is_written_as_far_as_one_may_go() -> None:
    told = iter(range(1000))
    assert write_shape(told) == f"[{','.join(map(str, range(64)))},...]"
    assert next(told) == 65
    assert write_shape(range(64)) == f"[{','.join(map(str, range(64)))}]"


def test_a_scalar_is_described_by_empty_brackets() -> None:
    assert describe(BY_NAME["u8"], ()) == "u8[]"


TAKEN = """
from pathlib import Path
from resource import getpagesize
from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.tensors import zero_tensor

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()

before = resident()
tensor = zero_tensor(BY_NAME["string"], (1 << 26,))
assert tensor.byte_size == 1 << 28
assert resident() - before < 1 << 26
"""
"""For a process of its own: one that has freed much memory makes its zeros there, and writes them."""


def test_very_many_empty_strings_take_no_memory_before_they_are_read() -> None:
    done = subprocess.run([sys.executable, "-c", TAKEN], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert zero_tensor(BY_NAME["string"], (2, 3)).data == bytes(24)
