"""What a `PrePostProcessor` says of itself: openvino's own text, for whatever was recorded on it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op
from tests.mirror.conftest import make_model

import inferwire
from inferwire_cli.server_process import running_server

Record = Callable[[Any, Any], object]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of planes f32[?,3,4,6] and of numbers f32[?], which the file names nothing; it gives both back."""
    data: Any = op.parameter([-1, 3, 4, 6], np.float32, name="data")
    data.output(0).set_names({"data", "alias"})
    more: Any = op.parameter([-1], np.float32, name="more")
    results: list[Any] = []
    for parameter, name in ((data, "out"), (more, "rest")):
        relu: Any = op.relu(parameter)
        relu.output(0).set_names({name})
        results.append(op.result(relu, name=name))
    results[0].set_layout(openvino.Layout("NCHW"))
    path = tmp_path_factory.mktemp("preprocess") / "pictures.xml"
    openvino.save_model(make_model(results, [data, more], "pictures"), path, compress_to_fp16=False)
    path.write_text(re.sub(r' names="(more|rest)"', "", path.read_text()))
    return path


@pytest.fixture
def model(runtime: Any, pictures: Path) -> Any:
    return runtime.core.read_model(pictures)


def in_order(*steps: object) -> None:
    """Hold calls that follow each other in one expression."""


def planes(ov: Any, processor: Any) -> None:
    color = ov.preprocess.ColorFormat
    image = processor.input(0)
    image.tensor().set_element_type(ov.Type.u8).set_color_format(color.NV12_TWO_PLANES, ["y", "uv"])
    image.tensor().set_memory_type("GPU_SURFACE")
    image.model().set_layout("NCHW")
    image.preprocess().convert_color(color.RGB)


def every_step(ov: Any, processor: Any) -> None:
    pre = ov.preprocess
    image = processor.input("alias")
    image.tensor().set_element_type(ov.Type.u8).set_layout("NHWC").set_color_format(pre.ColorFormat.BGR)
    image.tensor().set_spatial_dynamic_shape()
    image.model().set_layout(ov.Layout("NCHW"))
    steps = image.preprocess().convert_element_type(ov.Type.f32).convert_color(pre.ColorFormat.RGB)
    steps.resize(pre.ResizeAlgorithm.RESIZE_LINEAR, 8, 9).mean([1, 2.5, 1e-9]).scale(1 / 3).reverse_channels()
    steps.crop([0, 1, 1, 0], [1, -1, 7, 3]).pad([0, 0, 1, 0], [0, 0, -1, 0], 7.5, pre.PaddingMode.REFLECT)
    steps.convert_layout([0, 3, 1, 2]).convert_layout("NHWC").resize(pre.ResizeAlgorithm.RESIZE_BICUBIC_PILLOW)


RECORDINGS: dict[str, Record] = {
    "nothing": lambda ov, it: it.input(0).tensor(),
    "a type": lambda ov, it: it.input(0).tensor().set_element_type(ov.Type.u8),
    "the dynamic type": lambda ov, it: it.input(0).tensor().set_element_type(ov.Type.dynamic),
    "the dynamic type of an output": lambda ov, it: it.output(0).tensor().set_element_type(ov.Type.dynamic),
    "a layout": lambda ov, it: it.input(0).tensor().set_layout("NHWC"),
    "the model's layout": lambda ov, it: it.input(0).model().set_layout("N?HW"),
    "the layout of an output": lambda ov, it: it.output(0).tensor().set_layout("NHWC"),
    "the model's layout of an output": lambda ov, it: it.output(0).model().set_layout("NHWC"),
    "memory": lambda ov, it: it.input(1).tensor().set_memory_type("GPU_BUFFER"),
    "a tensor to be like": lambda ov, it: it.input(0).tensor().set_from(np.zeros((1, 3, 4, 6), np.int8)),
    "planes": planes,
    "every step": every_step,
    "ports without names": lambda ov, it: in_order(
        it.input(1).tensor().set_element_type(ov.Type.f16), it.output(1).tensor().set_element_type(ov.Type.f64)
    ),
    "steps of outputs": lambda ov, it: in_order(
        it.output(0).postprocess().convert_element_type(ov.Type.f16).convert_layout([0, 3, 1, 2]),
        it.output(0).tensor().set_element_type(ov.Type.i32).set_layout("NCHW"),
    ),
    "a mean of integers": lambda ov, it: in_order(
        it.input(0).tensor().set_element_type(ov.Type.u8), it.input(0).preprocess().mean(3).scale(2)
    ),
    "a colour of no colour": lambda ov, it: it.input(0).preprocess().convert_color(ov.preprocess.ColorFormat.RGB),
    "a layout of another rank": lambda ov, it: it.input(0).tensor().set_layout("NC"),
    "no layout to resize by": lambda ov, it: (
        it.input(0).preprocess().resize(ov.preprocess.ResizeAlgorithm.RESIZE_NEAREST, 1, 2)
    ),
    "no type to convert to": lambda ov, it: it.output(0).postprocess().convert_element_type(),
    "a position twice": lambda ov, it: it.input(1).preprocess().convert_layout([0]).convert_layout([]),
}


def texts(ov: Any, processor: Any, record: Record) -> tuple[str, str, str]:
    """What it says once something is recorded, and once that is built in, as far as it can be."""
    record(ov, processor)
    said, shown = str(processor), repr(processor)
    if "Error occurred" not in said:
        processor.build()
    return said, shown, str(processor)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_processor_says_what_openvinos_does(runtime: Any, model: Any, pictures: Path, name: str) -> None:
    local = openvino.preprocess.PrePostProcessor(openvino.Core().read_model(pictures))
    expected = texts(openvino, local, RECORDINGS[name])
    processor = runtime.ov.preprocess.PrePostProcessor(model)
    assert texts(runtime.ov, processor, RECORDINGS[name]) == expected
    assert expected[1] == f"<PrePostProcessor: {expected[0]}>"


CHANGES: dict[str, Callable[[Any, Any], object]] = {
    "a layout": lambda ov, model: model.get_parameters()[0].set_layout(ov.Layout("NCHW")),
    "the layout of an output": lambda ov, model: model.get_results()[1].set_layout(ov.Layout("N")),
    "no layout of an output": lambda ov, model: model.get_results()[0].set_layout(ov.Layout()),
    "a shape": lambda ov, model: model.reshape({0: [2, 3, 8, 8]}),
    "no names": lambda ov, model: model.input(0).set_names(set()),
    "other names": lambda ov, model: model.output(0).set_names({"probabilities"}),
}


def after(ov: Any, model: Any, change: Callable[[Any, Any], object]) -> list[str]:
    """What it says where a model changes that has its processor."""
    processor = ov.preprocess.PrePostProcessor(model)
    processor.input(0).tensor().set_layout(ov.Layout("NHWC"))
    for output in range(2):
        processor.output(output).tensor().set_element_type(ov.Type.f16)
    said = [str(processor)]
    change(ov, model)
    said.append(str(processor))
    processor.build()
    processor.input(1).tensor().set_element_type(ov.Type.f64)
    return [*said, str(processor)]


@pytest.mark.parametrize("name", CHANGES)
def test_a_processor_follows_its_model(runtime: Any, model: Any, pictures: Path, name: str) -> None:
    expected = after(openvino, openvino.Core().read_model(pictures), CHANGES[name])
    assert after(runtime.ov, model, CHANGES[name]) == expected
    assert len(set(expected)) == 3


def test_a_processor_says_the_same_once_another_has_built_something_in(runtime: Any, model: Any) -> None:
    first, second = (runtime.ov.preprocess.PrePostProcessor(model) for _ in range(2))
    first.input(0).tensor().set_element_type(runtime.ov.Type.u8)
    said = str(first)
    second.input(0).tensor().set_layout("NHWC")
    second.build()
    assert str(first) == said
    with pytest.raises(RuntimeError, match="Use only one InputInfo for one input parameter"):
        first.build()


def test_where_openvino_raises_an_error_the_processor_says_it(runtime: Any, model: Any) -> None:
    processor = runtime.ov.preprocess.PrePostProcessor(model)
    processor.input(0).preprocess().convert_layout("NC??")
    processor.input(0).model().set_layout("NHWC")
    processor.input(0).tensor().set_layout("HW")
    if runtime.is_remote:
        assert str(processor).endswith("\n\nError occurred: unordered_map::at\n")
    else:
        with pytest.raises(IndexError, match=r"^unordered_map::at$"):
            str(processor)


def test_a_processor_whose_server_is_gone_says_what_was_recorded(pictures: Path, tmp_path: Path) -> None:
    with running_server(tmp_path, "--allow-uploads") as server:
        model = inferwire.Core(server.grpc_address).read_model(pictures)
        processor = inferwire.preprocess.PrePostProcessor(model)
        processor.input(0).tensor().set_element_type(inferwire.Type.u8)
        assert "Model's expected tensor" in str(processor)
    assert repr(processor).startswith(
        "<PrePostProcessor: input(0).tensor().set_element_type(u8)\n\nError occurred: no inferwire server answers at "
    )
