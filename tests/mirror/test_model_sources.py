"""Models in every form a program may have them in: paths, bytes, text and streams; old IR, new IR and ONNX."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

ONNX = Path(__file__).resolve().parents[1] / "data/sigmoid.onnx"
SCALE: NDArray[np.int64] = np.array([2, -3], np.int64)

IR = """<?xml version="1.0"?>
<net name="scaled" version="{version}"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data element_type="i64" shape="2"/>
<output><port id="0" precision="I64" names="x"><dim>2</dim></port></output></layer>
<layer id="1" name="scale" type="Const" version="opset1"><data element_type="i64" shape="2" offset="0" size="16"/>
<output><port id="0" precision="I64"><dim>2</dim></port></output></layer>
<layer id="2" name="product" type="Multiply" version="opset1"><data auto_broadcast="numpy"/>
<input><port id="0"><dim>2</dim></port><port id="1"><dim>2</dim></port></input>
<output><port id="2" precision="I64" names="y"><dim>2</dim></port></output></layer>
<layer id="3" name="result" type="Result" version="opset1"><input><port id="0"><dim>2</dim></port></input></layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
</edges></net>
"""


@dataclass(frozen=True, slots=True)
class Files:
    """A model that multiplies by a constant: its XML, and its weights beside it."""

    xml: Path
    bin: Path

    @property
    def text(self) -> str:
        return self.xml.read_text()

    @property
    def content(self) -> bytes:
        return self.xml.read_bytes()

    @property
    def weights(self) -> bytes:
        return self.bin.read_bytes()


@pytest.fixture(scope="module", params=[10, 11], ids=["IR v10", "IR v11"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Files:
    xml = tmp_path_factory.mktemp("ir") / "scaled.xml"
    xml.write_text(IR.format(version=request.param))
    xml.with_suffix(".bin").write_bytes(SCALE.tobytes())
    return Files(xml, xml.with_suffix(".bin"))


READ: dict[str, Callable[[Any, Any, Files], Any]] = {
    "path": lambda ov, core, files: core.read_model(files.xml),
    "path as text": lambda ov, core, files: core.read_model(str(files.xml)),
    "two paths": lambda ov, core, files: core.read_model(files.xml, files.bin),
    "two paths as text": lambda ov, core, files: core.read_model(str(files.xml), weights=str(files.bin)),
    "by keyword": lambda ov, core, files: core.read_model(model=files.xml, weights=None, config={}),
    "a path, and none for the weights": lambda ov, core, files: core.read_model(str(files.xml), ""),
    "a path, and no bytes for the weights": lambda ov, core, files: core.read_model(files.xml, b""),
    "bytes": lambda ov, core, files: core.read_model(files.content, files.weights),
    "bytes and a tensor": lambda ov, core, files: core.read_model(files.content, tensor(ov, files)),
    "text and a tensor": lambda ov, core, files: core.read_model(files.text, tensor(ov, files)),
    "streams": lambda ov, core, files: core.read_model(io.BytesIO(files.content), io.BytesIO(files.weights)),
}
COMPILED: dict[str, Callable[[Any, Any, Files], Any]] = {
    "path": lambda ov, core, files: core.compile_model(files.xml, "CPU"),
    "path as text": lambda ov, core, files: core.compile_model(str(files.xml), "CPU", {}),
    "path as bytes": lambda ov, core, files: core.compile_model(str(files.xml).encode(), "CPU"),
    "no device": lambda ov, core, files: core.compile_model(files.xml),
    "no device but properties": lambda ov, core, files: core.compile_model(files.xml, config={"PERF_COUNT": True}),
    "by keyword": lambda ov, core, files: core.compile_model(model=files.xml, device_name="CPU", config={}),
    "bytes": lambda ov, core, files: core.compile_model(files.content, "CPU", weights=files.weights),
    "text": lambda ov, core, files: core.compile_model(files.text, "CPU", {}, weights=files.weights),
    "read": lambda ov, core, files: core.compile_model(core.read_model(files.xml), "CPU", {"PERF_COUNT": True}),
    "read, no device": lambda ov, core, files: core.compile_model(core.read_model(files.xml)),
}


def tensor(ov: Any, files: Files) -> Any:
    return ov.Tensor(np.frombuffer(files.weights, np.uint8))


def types_of(ports: Any) -> list[str]:
    return [port.element_type.get_type_name() for port in ports]


def assert_scales(compiled: Any, files: Files) -> None:
    """Old IR keeps its inputs' type and gives i32; new IR keeps both."""
    assert types_of(compiled.inputs) == ["i64"]
    assert types_of(compiled.outputs) == ["i32" if 'version="10"' in files.text else "i64"]
    (result,) = compiled({0: np.array([5, 7], np.int64)}).to_tuple()
    assert result.tolist() == [10, -21]


@pytest.mark.parametrize("way", READ)
def test_a_model_is_read(runtime: Any, files: Files, way: str) -> None:
    model = READ[way](runtime.ov, runtime.core, files)
    assert model.friendly_name == "scaled"
    assert types_of(model.inputs) == ["i64"]
    assert types_of(model.outputs) == ["i32" if 'version="10"' in files.text else "i64"]
    assert_scales(runtime.core.compile_model(model, "CPU"), files)


@pytest.mark.parametrize("way", COMPILED)
def test_a_model_is_compiled(runtime: Any, files: Files, way: str) -> None:
    assert_scales(COMPILED[way](runtime.ov, runtime.core, files), files)


@pytest.mark.parametrize("way", ["path", "bytes", "stream"])
def test_onnx(runtime: Any, way: str) -> None:
    content = ONNX.read_bytes()
    given = {"path": ONNX, "bytes": content, "stream": io.BytesIO(content)}[way]
    model = runtime.core.read_model(given)
    assert (types_of(model.inputs), types_of(model.outputs)) == (["f32"], ["f32"])
    assert (model.input().any_name, str(model.input().partial_shape)) == ("x", "[3,4,5]")
    compiled = runtime.core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    assert compiled(np.zeros((3, 4, 5), np.float32))["y"].tolist() == np.full((3, 4, 5), 0.5).tolist()


NOT_READ: dict[str, tuple[Callable[[Any, Files], Any], type[Exception], str]] = {
    "text that is no path": (lambda core, files: core.read_model(files.text), RuntimeError, "Could not open the file"),
    "text that is too long for a path": (
        lambda core, files: core.read_model(files.text + " " * 9000),
        RuntimeError,
        "File name too long",
    ),
    "nothing": (lambda core, files: core.read_model(b""), RuntimeError, "Unable to read the model"),
    "None": (lambda core, files: core.read_model(None), TypeError, "isn't supported as 'model' argument"),
    "a path as bytes": (
        lambda core, files: core.read_model(str(files.xml).encode()),
        RuntimeError,
        "Unable to read the model",
    ),
    "a reader": (
        lambda core, files: core.read_model(io.BufferedReader(io.BytesIO(files.content))),
        TypeError,
        "isn't supported as 'model' argument",
    ),
    "a device that is a number": (
        lambda core, files: core.compile_model(files.xml, 3),
        TypeError,
        r"compile_model\(\): incompatible function arguments",
    ),
    "properties in the device's place": (
        lambda core, files: core.compile_model(files.xml, {"PERF_COUNT": True}),
        TypeError,
        r"compile_model\(\): incompatible function arguments",
    ),
    "properties that are none": (
        lambda core, files: core.compile_model(files.xml, "CPU", 3),
        TypeError,
        r"compile_model\(\): incompatible function arguments",
    ),
}


@pytest.mark.parametrize(("call", "kind", "text"), NOT_READ.values(), ids=NOT_READ.keys())
def test_what_is_no_model(
    runtime: Any, files: Files, call: Callable[[Any, Files], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        call(runtime.core, files)


def test_a_model_is_of_no_core_alone(
    runtime: Any, files: Files, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runtime.is_remote:
        monkeypatch.setenv("INFERWIRE_ADDRESS", request.getfixturevalue("server_address"))
    ov = runtime.ov
    for compile_model in (ov.Core().compile_model, ov.compile_model):
        assert_scales(compile_model(runtime.core.read_model(files.xml), "CPU"), files)
    model = runtime.core.read_model(files.content, files.weights)
    model.reshape([2])
    processor = ov.preprocess.PrePostProcessor(model)
    processor.input().tensor().set_element_type(ov.Type.u8)
    model = processor.build()
    assert set(ov.Core().query_model(model, "CPU").values()) == {"CPU"}
    compiled = ov.Core().compile_model(model, "CPU")
    assert types_of(compiled.inputs) == ["u8"]
    assert compiled({0: np.array([5, 7], np.uint8)})[0].tolist() == [10, -21]
