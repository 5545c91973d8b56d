"""Preprocessing by settings on the real runtime: as a local PrePostProcessor does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as ops
import pytest
from openvino.preprocess import ColorFormat, PrePostProcessor, ResizeAlgorithm
from tests.openvino_backend.small_models import EXACT, MAKE_MODEL

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_proto.preprocessing import METHODS, Call, PortLayout, Recording
from inferwire_proto.properties import EnumValue
from inferwire_server.core.model_options import ModelOptions, Preprocessing, Source
from inferwire_server.core.specs import Dimension
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend
from inferwire_server.repository.entries import Entry


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model that gives back the planes f32[?,3,4,6] of pictures it gets."""
    x: Any = ops.parameter(ov.PartialShape([-1, 3, 4, 6]), np.float32, name="x")
    x.output(0).set_names({"x"})
    y: Any = ops.result(ops.relu(x))
    y.output(0).set_names({"y"})
    file = tmp_path / "m" / "planes.xml"
    file.parent.mkdir()
    ov.save_model(MAKE_MODEL([y], [x], "planes"), file, compress_to_fp16=False)
    return file


def source_of(path: Path, settings: str) -> Source:
    file = path.parent / "inferwire.toml"
    file.write_text(f"[preprocessing.x]\n{settings}")
    return Entry("m", "1", path.parent, settings_file=file).settings().source(path)


def planes(backend: OpenVinoBackend, source: Source, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    model = backend.compile(source, ModelOptions("m", "CPU", EXACT))
    port = model.spec.inputs[0]
    assert port.admits(data.shape)
    (answer,) = model.create_slot().run([Tensor(port.element_type, data.shape, data.tobytes())], [0])
    return np.frombuffer(answer.data, np.float32).reshape(answer.shape)


def local(processor: PrePostProcessor, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return ov.Core().compile_model(processor.build(), "CPU", EXACT)(data)[0]


def pixels(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).integers(0, 256, shape).astype(dtype)


@pytest.mark.parametrize("element_type", ["u8", "f32"])
def test_pixels_are_prepared_as_by_a_local_processor(backend: OpenVinoBackend, path: Path, element_type: str) -> None:
    settings = f"""
        element_type = "{element_type}"
        layout = "NHWC"
        color = "BGR"
        model_layout = "NCHW"
        model_color = "RGB"
        resize = "linear"
        mean = [10, 20, 30]
        scale = [2, 3, 4]
    """
    data = pixels((2, 9, 7, 3), BY_NAME[element_type].storage_dtype)
    processor = PrePostProcessor(ov.Core().read_model(path))
    x = processor.input("x")
    x.tensor().set_element_type(getattr(ov.Type, element_type)).set_layout(ov.Layout("NHWC"))
    x.tensor().set_color_format(ColorFormat.BGR).set_spatial_dynamic_shape()
    x.model().set_layout(ov.Layout("NCHW"))
    steps = x.preprocess().convert_element_type(ov.Type.f32).convert_color(ColorFormat.RGB)
    steps.resize(ResizeAlgorithm.RESIZE_LINEAR).mean([10, 20, 30]).scale([2, 3, 4])
    np.testing.assert_allclose(planes(backend, source_of(path, settings), data), local(processor, data), rtol=1e-6)


def test_a_layout_alone_needs_no_more(backend: OpenVinoBackend, path: Path) -> None:
    data = pixels((1, 4, 6, 3), np.float32)
    got = planes(backend, source_of(path, 'layout = "NHWC"\nmodel_layout = "NCHW"'), data)
    np.testing.assert_array_equal(got, data.transpose(0, 3, 1, 2))


def test_a_model_of_grey_pictures_takes_files(backend: OpenVinoBackend, tmp_path: Path) -> None:
    x: Any = ops.parameter(ov.PartialShape([-1, 1, 4, 6]), np.float32, name="x")
    x.output(0).set_names({"x"})
    path = tmp_path / "m" / "grey.xml"
    path.parent.mkdir(exist_ok=True)
    ov.save_model(MAKE_MODEL([ops.result(ops.relu(x))], [x], "grey"), path, compress_to_fp16=False)
    source = source_of(path, 'encoded = true\nmodel_layout = "NCHW"\nmodel_color = "GRAY"')
    grey = planes(backend, source, np.full((1, 4, 6, 3), 7, np.uint8))
    np.testing.assert_allclose(grey, np.full((1, 1, 4, 6), 7.0), atol=0.5)


def test_reading_tells_the_ports_that_callers_see(backend: OpenVinoBackend, path: Path) -> None:
    settings = 'element_type = "u8"\nlayout = "NHWC"\nmodel_layout = "NCHW"\nresize = "nearest"'
    (port,) = backend.read(source_of(path, settings)).inputs
    assert (port.element_type.name, port.shape_text) == ("u8", "[?,?,?,3]")


def test_new_shapes_come_after_what_was_recorded_before_them(backend: OpenVinoBackend, path: Path) -> None:
    layout = (
        Call("input", None, "tensor", "set_layout", ("NHWC",)),
        Call("input", None, "model", "set_layout", ("NCHW",)),
    )
    shape = tuple(Dimension(length, length) for length in (2, 8, 8, 3))
    twice = (
        Preprocessing(layout, {"x": shape}),
        Preprocessing((Call("input", 0, "tensor", "set_element_type", (BY_NAME["u8"],)),)),
    )
    spec = backend.read(Source(path, preprocessing=twice))
    assert (spec.inputs[0].element_type.name, spec.inputs[0].shape_text) == ("u8", "[2,8,8,3]")
    assert spec.outputs[0].shape_text == "[2,3,8,8]"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ('layout = "NHWQQ!"', "preprocessing.x: "),
        ("mean = [1, 2, 3]", "preprocessing.x: "),
        ('element_type = "u8"\nresize = "linear"', "preprocessing.x: "),
        ('color = "NV12_SINGLE_PLANE"', "preprocessing.x: "),
    ],
)
def test_what_openvino_refuses_names_the_setting(
    backend: OpenVinoBackend, path: Path, settings: str, reason: str
) -> None:
    with pytest.raises(ServingError) as refused:
        backend.read(source_of(path, settings))
    assert refused.value.code is Code.MODEL_FAILED
    assert refused.value.message.startswith(reason)
    assert len(refused.value.message) > len(reason)


def test_a_layout_that_nobody_says_is_named(backend: OpenVinoBackend, path: Path) -> None:
    for table in ("encoded = true\nmean = 127", 'color = "BGR"\nmodel_color = "RGB"', "mean = [1, 2, 3]"):
        with pytest.raises(ServingError, match=r'setting model_layout, as "NCHW" \(or layout, .*\), is not given$'):
            backend.read(source_of(path, table))
    with pytest.raises(ServingError) as refused:
        backend.read(source_of(path, 'model_layout = "NHWC"\nmean = [1, 2, 3]'))
    assert "is not given" not in refused.value.message


def test_an_input_that_is_not_there_names_the_setting(backend: OpenVinoBackend, path: Path) -> None:
    source = source_of(path, "")
    (recorded,) = source.preprocessing
    call = Call("input", "z", "preprocess", "reverse_channels")
    with pytest.raises(ServingError, match=r"^preprocessing\.x: there is no input 'z', expected one of x$"):
        backend.read(Source(path, preprocessing=(Preprocessing((call,), setting=recorded.setting),)))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (EnumValue("preprocess.ColorFormat", "PINK"), "preprocess.ColorFormat has no member PINK, expected UNDEFINED"),
        (EnumValue("os.path", "sep"), "os.path has no member sep, expected none"),
    ],
)
def test_a_member_that_is_not_there_is_refused(
    backend: OpenVinoBackend, path: Path, value: EnumValue, reason: str
) -> None:
    call = Call("input", None, "preprocess", "convert_color", (value,))
    with pytest.raises(ServingError) as refused:
        backend.read(Source(path, preprocessing=(Preprocessing((call,)),)))
    assert refused.value.message.startswith(reason)


@pytest.mark.parametrize("positions", [[0, 3, 1, 7], [0, 0, 1, 2], [0, -1, 1, 2], [0.0, 1.0], [True, False]])
def test_positions_that_would_end_the_process_are_refused(
    backend: OpenVinoBackend, path: Path, positions: list[Any]
) -> None:
    calls = (
        Call("input", None, "tensor", "set_layout", ("NCHW",)),
        Call("input", None, "preprocess", "convert_layout", (positions,)),
    )
    with pytest.raises(ServingError) as refused:
        backend.read(Source(path, preprocessing=(Preprocessing(calls),)))
    assert refused.value.code is Code.MODEL_FAILED
    assert refused.value.message.startswith(f"convert_layout() is given the positions {positions}, expected each")


def test_every_call_in_the_table_is_one_of_openvinos() -> None:
    x: Any = ops.parameter(ov.PartialShape([1]), np.float32)
    processor = PrePostProcessor(MAKE_MODEL([ops.result(x)], [x], "m"))
    for (kind, part), methods in METHODS.items():
        owner = getattr(getattr(processor, kind)(), part)()
        # What takes an object of the caller's own process cannot be recorded.
        own = {name for name in dir(owner) if not name.startswith("_")} - {"custom", "set_from"}
        assert own == methods


def test_a_call_that_is_not_in_the_table_cannot_be_recorded() -> None:
    with pytest.raises(ValueError, match=r"output\(\)\.tensor\(\)\.__class__\(\) is no call of PrePostProcessor"):
        Call("output", None, "tensor", "__class__")


def test_what_openvino_says_of_a_recording_ends_with_what_it_refuses(backend: OpenVinoBackend, path: Path) -> None:
    calls = (
        Call("input", 0, "preprocess", "convert_layout", ([7, 0, 1, 2],)),
        Call("input", 1, "tensor", "set_layout", ("[N,C]",)),
        Call("input", "x", "tensor", "set_element_type", (BY_NAME["u8"],)),
    )
    assert backend.describe_preprocessing(Source(path), Recording(calls)) == (
        'Input "x":\n'
        "    User's input tensor: [?,3,4,6], <no layout>, u8\n"
        "    Model's expected tensor: [?,3,4,6], <no layout>, f32\n"
        "    Implicit pre-processing steps (1):\n"
        "      convert type (f32): ([?,3,4,6], <no layout>, u8) -> ([?,3,4,6], <no layout>, f32)\n"
        "\nError occurred: convert_layout() is given the positions [7, 0, 1, 2], expected each of the dimensions once\n"
    )


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        (PortLayout(False, 1, "[N,C]"), "^input 1 is given a layout, and the model has 1$"),
        (PortLayout(True, 0, "[N,C]"), r"layout \[N,C\] is not compatible with shape \[\?,3,4,6\]$"),
    ],
)
def test_a_layout_that_no_port_can_have_is_refused(
    backend: OpenVinoBackend, path: Path, layout: PortLayout, reason: str
) -> None:
    with pytest.raises(ServingError, match=reason) as refused:
        backend.describe_preprocessing(Source(path), Recording((), (layout,)))
    assert refused.value.code is Code.MODEL_FAILED


def test_an_error_in_the_place_of_a_text_is_the_models_failure(backend: OpenVinoBackend, path: Path) -> None:
    """OpenVINO looks for each dimension of the model's layout, and the layout before has others."""
    calls = (
        Call("input", 0, "preprocess", "convert_layout", ("[N,C,?,?]",)),
        Call("input", 0, "model", "set_layout", ("[N,H,W,C]",)),
        Call("input", 0, "tensor", "set_layout", ("[H,W]",)),
    )
    with pytest.raises(ServingError, match=r"^unordered_map::at$") as refused:
        backend.describe_preprocessing(Source(path), Recording(calls))
    assert refused.value.code is Code.MODEL_FAILED
