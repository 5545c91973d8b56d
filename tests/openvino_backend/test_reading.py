"""What is read of models' files, and compiled from them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from errno import EIO
from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as ops
import pytest
from tests.conftest import without_rights
from tests.openvino_backend.small_models import EXACT, compiled, f32, identity, parameter, saved

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.specs import Dimension
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend
from inferwire_server.openvino_backend.specs import texts

DATA = Path(__file__).parent.parent / "data"


@pytest.mark.parametrize("content", ["", "no model", '<?xml version="1.0"?><net name="m" version="99"/>'])
def test_a_file_that_is_no_model_fails_with_a_reason(backend: OpenVinoBackend, tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken.xml"
    path.write_text(content)
    for call in (backend.read, lambda source: backend.compile(source, ModelOptions("m", "CPU"))):  # pyright: ignore
        with pytest.raises(ServingError) as caught:
            call(Source(path))
        assert caught.value.code is Code.MODEL_FAILED
        assert caught.value.message


def test_a_port_of_no_known_type_fails_with_a_sentence(backend: OpenVinoBackend, tmp_path: Path) -> None:
    x: Any = ops.parameter(ov.PartialShape([1]), ov.Type.dynamic, name="x")
    with pytest.raises(ServingError, match="input 0 has element type dynamic, expected a known one") as caught:
        backend.read(saved(tmp_path, [("y", x)], [x]))
    assert caught.value.code is Code.MODEL_FAILED


def test_an_onnx_file_is_read_beside_one_that_nobody_may_look_at(
    backend: OpenVinoBackend, readable_by_all: Path
) -> None:
    copy(DATA / "sigmoid.onnx", readable_by_all)
    closed = readable_by_all / "closed"
    closed.mkdir(0o000)
    (readable_by_all / "other.onnx").symlink_to(closed / "other.onnx")
    with without_rights():
        assert compiled(backend, Source(readable_by_all / "sigmoid.onnx")).spec.inputs


def test_a_file_is_read_of_which_the_system_tells_nothing(
    backend: OpenVinoBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stat(path: Path, **_: object) -> os.stat_result:
        raise OSError(EIO, os.strerror(EIO), str(path))

    monkeypatch.setattr(Path, "stat", stat)
    assert compiled(backend, Source(DATA / "sigmoid.onnx")).spec.inputs


def test_an_onnx_file_is_read(backend: OpenVinoBackend) -> None:
    model = compiled(backend, Source(DATA / "sigmoid.onnx"))
    assert [(port.oip_name, port.shape_text) for port in model.spec.inputs] == [("x", "[3,4,5]")]
    (answer,) = model.create_slot().run([f32(np.zeros((3, 4, 5)))], [0])
    assert answer == f32(np.full((3, 4, 5), 0.5))


def test_a_model_is_reshaped_as_it_is_read(backend: OpenVinoBackend, tmp_path: Path) -> None:
    x = parameter(BY_NAME["f32"], (-1, 2))
    source = saved(tmp_path, [("y", ops.relu(x))], [x])
    reshaped = Source(source.path, reshape={"x": (Dimension(1, 4), Dimension(2, 2))})
    assert backend.read(reshaped).inputs[0].shape_text == "[1..4,2]"
    assert backend.read(Source(source.path, reshape={"x": None})).inputs[0].shape is None
    nameless = Source(source.path, reshape={"": (Dimension(3, 3), Dimension(2, 2))})
    assert backend.read(nameless).inputs[0].shape_text == "[3,2]"


def test_the_batch_is_set_where_the_layout_says_it_is_else_first(backend: OpenVinoBackend, tmp_path: Path) -> None:
    first, second = parameter(BY_NAME["f32"], (5, 2), "first"), parameter(BY_NAME["f32"], (2, 5), "second")
    second.set_layout(ov.Layout("CN"))
    source = saved(tmp_path, [("y", ops.relu(first)), ("z", ops.relu(second))], [first, second])
    shapes = [port.shape_text for port in backend.read(replace(source, batch=Dimension(1, 8))).inputs]
    assert shapes == ["[1..8,2]", "[2,1..8]"]
    assert backend.read(replace(source, batch=Dimension(0, None))).inputs[0].shape_text == "[?,2]"


def test_inputs_that_take_any_length_keep_their_rank(backend: OpenVinoBackend, tmp_path: Path) -> None:
    first, second = parameter(BY_NAME["f32"], (5, 2), "first"), parameter(BY_NAME["f32"], (3,), "second")
    source = saved(tmp_path, [("y", ops.relu(first)), ("z", ops.relu(second))], [first, second])
    shapes = [
        [port.shape_text for port in backend.read(replace(source, free=frozenset(free))).inputs]
        for free in (("first",), ("",), ())
    ]
    assert shapes == [["[?,?]", "[3]"], ["[?,?]", "[?]"], ["[5,2]", "[3]"]]
    with pytest.raises(ServingError, match="there is no input 'third', expected one of first, second"):
        backend.read(replace(source, free=frozenset({"third"}), by_settings=True))


def test_a_batch_of_what_has_none_is_refused(backend: OpenVinoBackend, tmp_path: Path) -> None:
    x = parameter(BY_NAME["f32"], ())
    source = saved(tmp_path, [("y", ops.relu(x))], [x])
    with pytest.raises(ServingError, match=r"input 'x' has shape \[\]: no batch can be set"):
        backend.read(replace(source, batch=Dimension(2, 2)))
    with pytest.raises(ServingError, match=r"input 'x' has shape \[\.\.\.\]: no batch can be set"):
        backend.read(replace(source, reshape={"x": None}, batch=Dimension(2, 2)))


_IR_V10 = """<?xml version="1.0"?>
<net name="old" version="10"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data element_type="i64" shape="2"/>
<output><port id="0" precision="I64"><dim>2</dim></port></output></layer>
<layer id="1" name="y" type="Result" version="opset1">
<input><port id="0"><dim>2</dim></port></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>
"""


def test_an_old_ir_keeps_its_input_type_and_gives_i32(backend: OpenVinoBackend, tmp_path: Path) -> None:
    path = tmp_path / "old.xml"
    path.write_text(_IR_V10)
    model = compiled(backend, Source(path))
    assert (model.spec.inputs[0].element_type.name, model.spec.outputs[0].element_type.name) == ("i64", "i32")
    sent = Tensor(BY_NAME["i64"], (2,), np.array([3, -4], np.int64).tobytes())
    (answer,) = model.create_slot().run([sent], [0])
    assert answer == Tensor(BY_NAME["i32"], (2,), np.array([3, -4], np.int32).tobytes())


def test_a_compiled_model_s_files_may_be_overwritten(tmp_path: Path, backend: OpenVinoBackend) -> None:
    x = parameter(BY_NAME["f32"], [1, 64])
    table = ops.constant(np.random.default_rng(0).random((64, 4096), dtype=np.float32))
    source = saved(tmp_path, [("y", ops.matmul(x, table, False, False))], [x])
    model = compiled(backend, source)
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    source.path.with_suffix(".bin").write_bytes(b"")
    row = Tensor(BY_NAME["f32"], (1, 64), bytes(256))
    assert model.create_slot().run([row], [0]) == (Tensor(BY_NAME["f32"], (1, 4096), bytes(4 * 4096)),)


def test_names_that_compiling_invents_leave_the_signature_alone(tmp_path: Path, backend: OpenVinoBackend) -> None:
    (path,) = (Path(__file__).resolve().parents[2] / "deploy/models/silero_vad_stateful/1").glob("*.xml")
    options = ModelOptions("m", "CPU", {"CACHE_DIR": str(tmp_path)})
    first, cached = (backend.compile(Source(path), options).spec for _ in range(2))
    assert first.outputs[0].names > cached.outputs[0].names
    assert first.signature == cached.signature


@pytest.mark.parametrize("device", ["CPU", "AUTO"])
def test_a_cached_model_is_the_same_and_one_with_other_weights_another(
    tmp_path: Path, backend: OpenVinoBackend, device: str
) -> None:
    options = ModelOptions("m", device, EXACT | {"CACHE_DIR": str(tmp_path / "cache")})

    def outputs(addend: float) -> tuple[int, tuple[Tensor, ...]]:
        x = parameter(BY_NAME["f32"], (1, 4))
        table = ops.constant(np.full((1, 4), addend, np.float32))
        model = backend.compile(saved(tmp_path, [("y", ops.add(x, table))], [x]), options)
        return model.spec.signature, model.create_slot().run([f32([[0, 0, 0, 0]])], [0])

    first, again, other = outputs(1), outputs(1), outputs(2)
    assert list((tmp_path / "cache").glob("*.blob"))
    assert first == again
    assert other == (first[0], (f32([[2, 2, 2, 2]]),))


def test_a_library_that_is_none_is_named_with_the_reason(tmp_path: Path) -> None:
    library = tmp_path / "liboperations.so"
    library.write_text("no library")
    with pytest.raises(ServingError) as caught:
        OpenVinoBackend([library])
    reason = f'Cannot load library "{library}": {library}: file too short'
    assert caught.value.message == f"--extension '{library}' cannot be loaded: {reason}"
    assert OpenVinoBackend().extensions == ()


def test_a_pipe_is_no_library(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    load = "import sys, pathlib; from inferwire_server.openvino_backend.backend import OpenVinoBackend as Backend\n"
    words = [sys.executable, "-c", f"{load}Backend([pathlib.Path(sys.argv[1])])", str(tmp_path / "pipe")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr.endswith(f"ServingError: --extension '{tmp_path / 'pipe'}' cannot be loaded: it is a pipe\n")


def test_what_a_file_says_of_its_model_is_read_as_texts(tmp_path: Path, backend: OpenVinoBackend) -> None:
    source = identity(tmp_path, BY_NAME["f32"])
    model: Any = ov.Core().read_model(source.path)
    for value, name in (("ssd", "model_type"), ([1.5, 2.0], "mean"), (True, "is_nhwc"), ("a b", "labels")):
        model.set_rt_info(value, ["model_info", name])
    ov.save_model(model, tmp_path / "said.xml")
    spec = backend.compile(Source(tmp_path / "said.xml"), ModelOptions("m", "CPU")).spec
    assert spec.rt_info["model_info"] == {"model_type": "ssd", "mean": "1.5 2", "is_nhwc": "YES", "labels": "a b"}
    assert spec.rt_info["version"] == "11"
    assert str(tmp_path) not in str(spec.rt_info)


@pytest.mark.parametrize(("value", "text"), [(True, "YES"), (False, "NO"), ([1.5, 2.0], "1.5 2.0"), (7, "7")])
def test_what_a_model_says_is_written_as_in_a_file(
    tmp_path: Path, backend: OpenVinoBackend, value: Any, text: str
) -> None:
    model: Any = ov.Core().read_model(identity(tmp_path, BY_NAME["f32"]).path)
    model.set_rt_info(value, "said")
    assert texts(model.get_rt_info())["said"] == text
