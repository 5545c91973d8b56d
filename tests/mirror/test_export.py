"""Compiled models leave and come back as openvino's do; what a device could run is told as by openvino."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

X: NDArray[np.float32] = np.array([[1, -2, 3]], np.float32)
RELU_X = [[1, 0, 3]]


@pytest.fixture(scope="module")
def blob(runtime: Any) -> bytes:
    return runtime.compile("relu").export_model().getvalue()


def test_an_export_is_a_stream_at_its_beginning(runtime: Any) -> None:
    stream = runtime.compile("relu").export_model()
    assert isinstance(stream, io.BytesIO)
    assert stream.tell() == 0
    assert len(stream.getvalue()) > 100


def test_an_export_goes_where_a_stream_stands_and_rewinds_it(runtime: Any) -> None:
    compiled = runtime.compile("relu")
    stream = io.BytesIO(b"before")
    stream.seek(0, io.SEEK_END)
    assert compiled.export_model(stream) is None
    assert stream.tell() == 0
    assert stream.getvalue().startswith(b"before")
    assert runtime.core.import_model(stream.getvalue()[6:], "CPU")(X)[0].tolist() == RELU_X
    other = io.BytesIO()
    assert compiled.export_model(model_stream=other) is None
    assert other.getvalue()


@pytest.mark.parametrize("stream", [[], None, "file"], ids=str)
def test_an_export_goes_to_nothing_but_a_stream(runtime: Any, stream: object) -> None:
    with pytest.raises(TypeError, match=r"must be an io\.BytesIO object but"):
        runtime.compile("relu").export_model(stream)
    with pytest.raises(TypeError):
        runtime.compile("relu").export_model(io.BytesIO(), stream)


@pytest.mark.parametrize("device", ["AUTO", "MULTI:CPU", "BATCH:CPU(4)"])
def test_a_device_that_exports_nothing_says_so(runtime: Any, device: str) -> None:
    with pytest.raises(RuntimeError, match="Not Implemented"):
        runtime.core.compile_model(runtime.models["relu"], device).export_model()


def test_a_heterogeneous_model_leaves_and_comes_back(runtime: Any) -> None:
    stream = runtime.core.compile_model(runtime.models["relu"], "HETERO:CPU").export_model()
    assert runtime.core.import_model(stream, "HETERO:CPU")(X)[0].tolist() == RELU_X


FORMS: dict[str, Callable[[Any, bytes], object]] = {
    "bytes": lambda ov, blob: blob,
    "a stream": lambda ov, blob: io.BytesIO(blob),
    "a tensor": lambda ov, blob: ov.Tensor(np.frombuffer(blob, np.uint8)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_model_comes_back(runtime: Any, blob: bytes, form: str) -> None:
    compiled = runtime.core.import_model(FORMS[form](runtime.ov, blob), "CPU")
    assert compiled(X)[0].tolist() == RELU_X
    assert repr(compiled.inputs) == "[<ConstOutput: names[data] shape[1,3] type: f32>]"
    assert repr(compiled.outputs) == "[<ConstOutput: names[out] shape[1,3] type: f32>]"
    assert compiled.input().node.friendly_name == "data"
    assert compiled.get_property("NETWORK_NAME") == "mirrored"
    request = compiled.create_infer_request()
    request.start_async({"data": X})
    request.wait()
    assert request.results["out"].tolist() == RELU_X


def test_a_stream_that_was_read_is_read_from_its_beginning(runtime: Any, blob: bytes) -> None:
    stream = io.BytesIO(blob)
    stream.read()
    assert runtime.core.import_model(stream, "CPU")(X)[0].tolist() == RELU_X


def test_properties_go_with_an_import(runtime: Any, blob: bytes) -> None:
    timed = runtime.core.import_model(model_stream=blob, device_name="CPU", config={"PERF_COUNT": True})
    assert timed.get_property("PERF_COUNT") == "YES"


NO_BLOB: dict[str, tuple[tuple[Any, ...], type[Exception], str]] = {
    "garbage": ((b"garbage", "CPU"), RuntimeError, "Cannot import compiled blob"),
    "nothing": ((b"", "CPU"), RuntimeError, "Cannot import compiled blob"),
    "text": (("text", "CPU"), TypeError, "must be an io.BytesIO object or bytes but 'text'` provided"),
    "None": ((None, "CPU"), TypeError, "must be an io.BytesIO object or bytes but None` provided"),
    "an array": ((np.zeros(1), "CPU"), TypeError, "must be an io.BytesIO object or bytes"),
    "an unknown device": ((b"x", "XPU"), RuntimeError, 'Device with "XPU" name is not registered'),
    "a device that imports nothing": ((b"x", "AUTO"), RuntimeError, "Not Implemented"),
    "an unknown property": ((b"x", "CPU", {"NOPE": 1}), RuntimeError, "Cannot import|Unsupported property NOPE"),
    "a device that is a number": ((b"x", 3), TypeError, r"import_model\(\): incompatible function arguments"),
    "properties that are none": ((b"x", "CPU", 3), TypeError, r"import_model\(\): incompatible function arguments"),
    "no device": ((b"x",), TypeError, "missing 1 required positional argument: 'device_name'"),
}


@pytest.mark.parametrize(("args", "kind", "text"), NO_BLOB.values(), ids=NO_BLOB.keys())
def test_what_cannot_be_imported(runtime: Any, args: tuple[Any, ...], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        runtime.core.import_model(*args)


@pytest.mark.parametrize("device", ["CPU", "HETERO:CPU"])
def test_a_query_names_the_device_of_each_node(runtime: Any, device: str) -> None:
    model = runtime.core.read_model(runtime.models["two"])
    devices = runtime.core.query_model(model, device)
    assert isinstance(devices, dict)
    assert {"a", "b"} < set(devices)
    assert list(devices) == sorted(devices)
    assert len(devices) == 6
    assert set(devices.values()) == {"CPU"}
    assert runtime.core.query_model(model=model, device_name=device, config=None) == devices


def test_what_cannot_be_queried(runtime: Any) -> None:
    model, core = runtime.core.read_model(runtime.models["two"]), runtime.core
    with pytest.raises(RuntimeError, match='Device with "XPU" name is not registered'):
        core.query_model(model, "XPU")
    with pytest.raises(RuntimeError, match="Unsupported property NOPE by CPU plugin"):
        core.query_model(model, "CPU", {"NOPE": 1})
    for args in ((model, 3), (model, "CPU", 3)):
        with pytest.raises(TypeError, match=r"query_model\(\): incompatible function arguments"):
            core.query_model(*args)
    with pytest.raises((AttributeError, TypeError)):
        core.query_model(str(runtime.models["two"]), "CPU")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'device_name'"):
        core.query_model(model)
