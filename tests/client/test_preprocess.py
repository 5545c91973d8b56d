"""What `preprocess` does without a server: what it records, and what it says of itself. Mirror tests have the rest."""

from __future__ import annotations

from typing import Any

import pytest

import inferwire as ov
from inferwire.preprocess import ColorFormat, PrePostProcessor, ResizeAlgorithm
from inferwire.transport.descriptions import Preprocessing
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.preprocessing import Call, PortLayout, Recording
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


def test_the_server_says_what_is_recorded(processor: PrePostProcessor, transport: Any) -> None:
    assert (str(processor), transport.recordings) == ("", [])
    transport.describe = lambda: "said"
    processor.input().tensor().set_layout("NC")
    processor.input().preprocess().reverse_channels()
    assert (str(processor), repr(processor)) == ("said", "<PrePostProcessor: said>")
    model = processor.build()
    for port in model.inputs:
        port.node.layout = ov.Layout("CN")
    processor.output().tensor().set_layout("CN")
    assert str(processor) == "said"
    calls = (
        Call("input", 0, "tensor", "set_layout", ("[N,C]",)),
        Call("input", 0, "preprocess", "reverse_channels"),
        Call("output", 0, "tensor", "set_layout", ("[C,N]",)),
    )
    assert transport.recordings == [Recording(calls[:2])] * 2 + [Recording(calls, (), 2)]


def test_the_server_is_told_of_the_layouts_of_nodes(transport: Any) -> None:
    model = ov.Core(transport=transport).read_model(b"onnx")
    processor = PrePostProcessor(model)
    processor.output().tensor().set_element_type(ov.Type.dynamic)
    ov.layout_helpers.set_layout(model.output(), ov.Layout("NC"))
    assert str(processor) == ""
    calls = (Call("output", 0, "tensor", "set_element_type"),)
    assert transport.recordings == [Recording(calls, (PortLayout(True, 0, "[N,C]"),))]


def test_a_processor_reads_as_its_calls_where_no_server_answers(processor: PrePostProcessor, transport: Any) -> None:
    def describe() -> str:
        raise ov.Unimplemented("an older one")

    transport.describe = describe
    processor.input().tensor().set_element_type(ov.Type.u8).set_color_format(ColorFormat.BGR)
    processor.output().postprocess().convert_layout([1, 0])
    assert repr(processor) == (
        "<PrePostProcessor: input(0).tensor().set_element_type(u8)\n"
        "input(0).tensor().set_color_format(BGR, [])\n"
        "output(0).postprocess().convert_layout([1, 0])\n"
        "\nError occurred: an older one\n>"
    )


def test_a_function_of_this_program_cannot_run_on_the_server(processor: PrePostProcessor) -> None:
    with pytest.raises(RuntimeError, match=r"PreProcessSteps\.custom\(\) is not offered by inferwire: its .* as IR"):
        processor.input().preprocess().custom(print)
    with pytest.raises(RuntimeError, match=r"PostProcessSteps\.custom\(\) is not offered by inferwire"):
        processor.output().postprocess().custom(print)
