"""The files of uploaded models: a runtime looks for them under these names, and under no others."""

from __future__ import annotations

import pytest

from inferwire_proto.errors import Code
from inferwire_server.core.model_layout import ModelLayout, lay_out
from inferwire_server.errors import ServingError


@pytest.mark.parametrize(("suffix", "weights"), [(".xml", "model.bin"), (".pdmodel", "model.pdiparams")])
def test_blobs_are_laid_out_as_a_runtime_looks_for_them(suffix: str, weights: str) -> None:
    name = f"model{suffix}"
    assert lay_out(b"m", b"w", suffix, {}) == ModelLayout(name, {name: b"m", weights: b"w"})


def test_a_model_without_weights_is_laid_out_alone() -> None:
    assert lay_out(b"m", None, ".onnx", {}) == ModelLayout("model.onnx", {"model.onnx": b"m"})


def test_a_saved_model_is_laid_out_as_its_folder() -> None:
    layout = lay_out(b"m", None, "saved_model.pb", {"variables/variables.index": b"i"})
    assert layout.model == "model"
    assert layout.blobs == {"model/saved_model.pb": b"m", "model/variables/variables.index": b"i"}


def test_files_with_tensors_are_laid_out_beside_an_onnx_model() -> None:
    tensors = {"model.onnx.data": b"t", "a/b/ä c": b"t"}
    assert lay_out(b"m", None, ".onnx", tensors) == ModelLayout("model.onnx", {"model.onnx": b"m", **tensors})


@pytest.mark.parametrize("folders", [0, 1, 7])
def test_more_files_than_any_model_has_are_refused(folders: int) -> None:
    most = (1 << 16) // (1 + folders)
    variables = {"a/" * folders + str(number): b"v" for number in range(most + 1)}
    with pytest.raises(ServingError) as caught:
        lay_out(b"m", None, ".onnx", variables)
    assert caught.value.code is Code.TOO_LARGE
    assert caught.value.message == (
        f"the model's variables are {len(variables) * (1 + folders)} files and folders, at most 65536 are allowed"
    )
    del variables["a/" * folders + "0"]
    assert len(lay_out(b"m", None, ".onnx", variables).blobs) == 1 + most


@pytest.mark.parametrize("suffix", ["", "onnx", ".", ".bin", "./../x", ".so", "." + "x" * 300])
def test_an_ending_of_no_model_is_refused(suffix: str) -> None:
    with pytest.raises(ServingError) as caught:
        lay_out(b"m", b"w", suffix, {})
    assert caught.value.code is Code.INVALID_INPUT
    assert caught.value.message == (
        f"the model file's ending is '{suffix}', expected one of .xml .onnx .tflite .pdmodel .pb .pbtxt"
    )


@pytest.mark.parametrize(
    ("suffix", "path"),
    [
        (".xml", "variables/variables.index"),
        *((".onnx", path) for path in ("", "..", "../x", "x/../y", "/etc/x", "x//y", "./x", "x/", "x\0", "x" * 256,
                                       "model.onnx")),
        *(
            ("saved_model.pb", path)
            for path in ("", "..", "saved_model.pb", "variables", "variables/..", "variables/variables.", "/etc/x",
                         "variables/variables.a/b", "../variables/variables.index", "variables/variables.index\n",
                         "variables/variables.index\0", "variables/variables." + "x" * 300)
        ),
    ],
)  # fmt: skip
def test_variables_are_laid_out_nowhere_else(suffix: str, path: str) -> None:
    with pytest.raises(ServingError) as caught:
        lay_out(b"m", None, suffix, {path: b"v"})
    assert caught.value.code is Code.INVALID_INPUT
    assert caught.value.message == (
        f"a model with the ending '{suffix}' has variables at '{path}', expected none there"
    )
