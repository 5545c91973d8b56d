"""ONNX models that keep tensors in files beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROW = np.array([[1, 2, 3]], np.float32)
LOCATIONS = ("model.onnx.data", "./weights", "parts/of/weights.bin")


def varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """Write a protobuf message of numbered fields."""
    written = b""
    for number, value in fields:
        if isinstance(value, int):
            written += varint(number << 3) + varint(value)
        else:
            content = value.encode() if isinstance(value, str) else value
            written += varint(number << 3 | 2) + varint(len(content)) + content
    return written


def entry(key: str, value: str) -> bytes:
    return message((1, key), (2, value))


def tensor_in(location: str) -> bytes:
    """Describe f32[1,3] whose content is in a file."""
    content = ((13, entry("location", location)), (13, entry("length", str(ROW.nbytes))))
    return message((1, 1), (1, 3), (2, 1), (8, "w"), *content, (14, 1))


def row_named(name: str) -> bytes:
    shape = message((1, message((1, 1))), (1, message((1, 3))))
    return message((1, name), (2, message((1, message((1, 1), (2, shape))))))


def model_of(*graph: tuple[int, bytes]) -> bytes:
    """Write y = x + w; where w comes from is given."""
    add = message((1, "x"), (1, "w"), (2, "y"), (4, "Add"))
    whole = message(*(field for field in graph if field[0] == 1), (1, add), (2, "g"), (11, row_named("x")))
    whole += message((12, row_named("y")), *(field for field in graph if field[0] != 1))
    return message((1, 8), (7, whole), (8, message((1, ""), (2, 13))))


def with_initializer(location: str) -> bytes:
    return model_of((5, tensor_in(location)))


def with_constant(location: str) -> bytes:
    value = message((1, "value"), (5, tensor_in(location)), (20, 4))
    return model_of((1, message((2, "w"), (4, "Constant"), (5, value))))


def with_branches(location: str) -> bytes:
    """Take w from the branches of an If."""
    same = message((1, "w"), (2, "v"), (4, "Identity"))
    branch = message((1, same), (2, "b"), (5, tensor_in(location)), (12, row_named("v")))
    branches = [(5, message((1, name), (6, branch), (20, 5))) for name in ("then_branch", "else_branch")]
    choice = message((1, "is_so"), (2, "w"), (4, "If"), *branches)
    return model_of((1, choice), (5, message((2, 9), (8, "is_so"), (9, b"\1"))))


def save(folder: Path, content: bytes) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("location", LOCATIONS)
@pytest.mark.parametrize("write", [with_initializer, with_constant, with_branches])
def test_tensors_are_read_from_files_beside_the_model(runtime: Any, tmp_path: Path, write: Any, location: str) -> None:
    file = tmp_path / location
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(ROW.tobytes())
    path = save(tmp_path, write(location))
    compiled = runtime.core.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    assert compiled(ROW)[0].tolist() == (ROW * 2).tolist()


@pytest.mark.parametrize(
    "location", ["nowhere.data", "../weights", "/etc/hostname", r"..\weights", r"C:\weights", "C:weights"]
)
def test_a_file_that_is_not_beside_the_model(runtime: Any, tmp_path: Path, location: str) -> None:
    (tmp_path / "weights").write_bytes(ROW.tobytes())
    (tmp_path / "models").mkdir()
    path = save(tmp_path / "models", with_initializer(location))
    with pytest.raises(RuntimeError) as caught:
        runtime.core.read_model(path)
    if runtime.is_remote:
        why = (
            "which cannot be read: No such file" if location[0] == "n" else "expected a file in its own folder or below"
        )
        assert str(caught.value).startswith(f"'{path}' keeps tensors in '{location}', {why}")


@pytest.mark.parametrize(
    "content", [b"", b"location", b"\x3alocation", b"\x0blocation", with_initializer("x")[:-60], b"\xff" * 9]
)
def test_what_is_no_onnx_is_what_the_runtime_says(runtime: Any, tmp_path: Path, content: bytes) -> None:
    with pytest.raises(RuntimeError, match="model"):
        runtime.core.read_model(save(tmp_path, content))
