"""What `preprocess` does without a server: what it records, and what it says of itself. Mirror tests have the rest."""

from __future__ import annotations

from typing import Any

import pytest

import inferwire as ov
from inferwire.preprocess import ColorFormat, PrePostProcessor, ResizeAlgorithm
from inferwire.transport.descriptions import Preprocessing
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.preprocessing import Call
from inferwire_proto.properties import EnumValue


@pytest.fixture
def processor(transport: Any) -> PrePostProcessor:
    return PrePostProcessor(ov.Core(transport=transport).read_model(b"onnx"))


def test_calls_are_recorded_in_order_and_sent_with_the_model(processor: PrePostProcessor, transport: Any) -> None:
    info = processor.input()
    info.preprocess().mean(1).resize(ResizeAlgorithm.RESIZE_LINEAR, 4, 6)
    info.tensor().set_element_type(ov.Type.u8).set_layout("nhwc")
    info.tensor().set_color_format(ColorFormat.NV12_TWO_PLANES, ("y", "uv")).set_shape([1, -1])
    model = processor.build()
    ov.Core(transport=transport).compile_model(model, "CPU")
    model.reshape({0: [2, 3]})
    ov.Core(transport=transport).compile_model(model, "CPU")
    (first, second) = (source.preprocessing for source, _, _ in transport.compiles)
    assert first == (
        Preprocessing(
            (
                Call("input", 0, "preprocess", "mean", (1.0,)),
                Call(
                    "input", 0, "preprocess", "resize", (EnumValue("preprocess.ResizeAlgorithm", "RESIZE_LINEAR"), 4, 6)
                ),
                Call("input", 0, "tensor", "set_element_type", (BY_NAME["u8"],)),
                Call("input", 0, "tensor", "set_layout", ("[N,H,W,C]",)),
                Call(
                    "input",
                    0,
                    "tensor",
                    "set_color_format",
                    (EnumValue("preprocess.ColorFormat", "NV12_TWO_PLANES"), ["y", "uv"]),
                ),
                Call("input", 0, "tensor", "set_shape", ("[1,?]",)),
            )
        ),
    )
    assert second[0].calls == first[0].calls
    assert [str(shape) for shape in second[0].reshape.values()] == ["[2,3]"]


def test_a_processor_reads_as_its_calls(processor: PrePostProcessor) -> None:
    processor.input().tensor().set_element_type(ov.Type.u8).set_color_format(ColorFormat.BGR)
    processor.output().postprocess().convert_layout([1, 0])
    assert repr(processor) == (
        "<PrePostProcessor: input(0).tensor().set_element_type(u8)\n"
        "input(0).tensor().set_color_format(BGR, [])\n"
        "output(0).postprocess().convert_layout([1, 0])\n>"
    )


def test_a_function_of_this_program_cannot_run_on_the_server(processor: PrePostProcessor) -> None:
    with pytest.raises(RuntimeError, match=r"PreProcessSteps\.custom\(\) is not offered by inferwire: its"):
        processor.input().preprocess().custom(print)
    with pytest.raises(RuntimeError, match=r"PostProcessSteps\.custom\(\) is not offered by inferwire"):
        processor.output().postprocess().custom(print)
