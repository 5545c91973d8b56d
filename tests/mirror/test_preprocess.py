"""`preprocess`: one body for openvino, which builds in this process, and inferwire, which records for a server."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op
from tests.mirror.conftest import make_model

EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


@pytest.fixture(scope="module")
def picture_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that gives back the planes f32[?,3,4,6] that it gets."""
    data: Any = op.parameter([-1, 3, 4, 6], np.float32, name="data")
    data.output(0).set_names({"data"})
    relu: Any = op.relu(data)
    relu.output(0).set_names({"out"})
    path = tmp_path_factory.mktemp("preprocess") / "picture.xml"
    openvino.save_model(make_model([op.result(relu)], [data], "picture"), path, compress_to_fp16=False)
    return path


@pytest.fixture
def model(runtime: Any, picture_file: Path) -> Any:
    return runtime.core.read_model(picture_file)


@pytest.fixture
def processor(runtime: Any, model: Any) -> Any:
    return runtime.ov.preprocess.PrePostProcessor(model)


@pytest.fixture
def two(runtime: Any) -> Any:
    """A processor of a model with the inputs a and b and the outputs sum and difference."""
    return runtime.ov.preprocess.PrePostProcessor(runtime.core.read_model(runtime.models["two"]))


def described(port: Any) -> tuple[set[str], str, str]:
    """The names the user gave; openvino makes some up for ports that have none."""
    names = {name for name in port.names if not name.startswith(("Parameter_", "Result_"))}
    return names, port.element_type.type_name, str(port.partial_shape)


def run(runtime: Any, processor: Any, *data: Any) -> Any:
    compiled = runtime.core.compile_model(processor.build(), "CPU", EXACT)
    return compiled(list(data))[0]


def pixels(*shape: int) -> Any:
    return np.random.default_rng(5).integers(0, 256, shape, np.uint8)


# --- programs


def test_a_whole_program(runtime: Any, model: Any) -> None:
    ov = runtime.ov
    from_preprocess = ov.preprocess
    processor = from_preprocess.PrePostProcessor(model)
    image = processor.input("data")
    image.tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC")).set_color_format(
        from_preprocess.ColorFormat.BGR
    ).set_spatial_dynamic_shape()
    image.model().set_layout(ov.Layout("NCHW"))
    image.preprocess().convert_element_type(ov.Type.f32).convert_color(from_preprocess.ColorFormat.RGB).resize(
        from_preprocess.ResizeAlgorithm.RESIZE_NEAREST
    ).mean([1, 2, 3]).scale([2, 4, 8])
    processor.output(0).tensor().set_element_type(ov.Type.f64)
    model = processor.build()
    assert described(model.input()) == ({"data"}, "u8", "[?,?,?,3]")
    assert described(model.output())[1:] == ("f64", "[?,3,4,6]")
    compiled = runtime.core.compile_model(model, "CPU", EXACT)
    assert described(compiled.input()) == ({"data"}, "u8", "[?,?,?,3]")
    data = pixels(2, 8, 12, 3)
    planes = data[:, ::2, ::2, ::-1].astype(np.float64)
    expected = np.maximum((planes - [1, 2, 3]) / [2, 4, 8], 0).transpose(0, 3, 1, 2)
    got = compiled(data)[0]
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-6)


STEPS: dict[str, Callable[[Any, Any], object]] = {
    "mean": lambda pre, steps: steps.mean(3),
    "mean of an array": lambda pre, steps: steps.mean(np.array([1.5, 2, 3])),
    "mean by name": lambda pre, steps: steps.mean(values=(1, 2, 3)),
    "scale": lambda pre, steps: steps.scale(np.float32(4)),
    "scale by name": lambda pre, steps: steps.scale(value=2),
    "reverse": lambda pre, steps: steps.reverse_channels(),
    "crop": lambda pre, steps: steps.crop([0, 0, 1, 2], (1, 3, -1, 5)).resize(pre.ResizeAlgorithm.RESIZE_CUBIC),
    "pad": lambda pre, steps: steps.pad([0, 0, 1, 0], [0, 0, -1, 0], 7, pre.PaddingMode.CONSTANT),
    "resize": lambda pre, steps: steps.resize(pre.ResizeAlgorithm.RESIZE_LINEAR, 8, 9).resize(
        pre.ResizeAlgorithm.RESIZE_BILINEAR_PILLOW, dst_height=4, dst_width=6
    ),
    "layout by positions": lambda pre, steps: steps.convert_layout([0, 1, 3, 2]).convert_layout(dims=(0, 1, 3, 2)),
    "layout": lambda pre, steps: steps.convert_layout("NHWC").convert_layout(dst_layout="NCHW"),
    "type": lambda pre, steps: steps.convert_element_type().mean(1),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_gives_what_it_gives_in_process(runtime: Any, picture_file: Path, name: str) -> None:
    """Ours against openvino's, and openvino's against itself: the numbers are its own."""
    data = pixels(1, 3, 4, 6).astype(np.float32)

    def result(ov: Any, core: Any) -> Any:
        processor = ov.preprocess.PrePostProcessor(core.read_model(picture_file))
        processor.input().tensor().set_layout(ov.Layout("NCHW"))
        STEPS[name](ov.preprocess, processor.input().preprocess())
        return core.compile_model(processor.build(), "CPU", EXACT)(data)[0]

    np.testing.assert_array_equal(result(runtime.ov, runtime.core), result(openvino, openvino.Core()))


def test_outputs_are_converted(runtime: Any, processor: Any) -> None:
    processor.output("out").model().set_layout("NCHW")
    processor.output("out").postprocess().convert_element_type(runtime.ov.Type.f64).convert_layout([0, 2, 3, 1])
    processor.output("out").tensor().set_layout("NHWC")
    data = pixels(1, 3, 4, 6).astype(np.float32)
    got = run(runtime, processor, data)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, data.transpose(0, 2, 3, 1))


def lay_out(runtime: Any, model: Any, layout: str) -> None:
    for node in (model.get_parameters()[0], model.get_results()[0]):
        node.set_layout(runtime.ov.Layout(layout))


def layouts(model: Any) -> list[str]:
    return [str(port.node.layout) for port in (*model.inputs, *model.outputs)]


def test_a_layout_of_a_node_is_the_models(runtime: Any, model: Any) -> None:
    lay_out(runtime, model, "NCHW")
    processor = runtime.ov.preprocess.PrePostProcessor(model)
    processor.input().tensor().set_layout(runtime.ov.Layout("NHWC"))
    processor.input().preprocess().mean([1, 2, 3])
    processor.output().tensor().set_layout(runtime.ov.Layout("NHWC"))
    data = pixels(2, 4, 6, 3).astype(np.float32)
    got = run(runtime, processor, data)
    np.testing.assert_array_equal(got, np.maximum(data - [1, 2, 3], 0))


def test_a_layout_set_by_a_helper_is_the_models(runtime: Any, model: Any) -> None:
    processor = runtime.ov.preprocess.PrePostProcessor(model)
    runtime.ov.layout_helpers.set_layout(model.input(), runtime.ov.Layout("NCHW"))
    processor.input().tensor().set_layout(runtime.ov.Layout("NHWC"))
    assert str(processor.build().input().partial_shape) == "[?,4,6,3]"


def test_what_a_processor_is_told_of_the_model_wins_over_a_nodes_layout(runtime: Any, model: Any) -> None:
    lay_out(runtime, model, "NHWC")
    processor = runtime.ov.preprocess.PrePostProcessor(model)
    processor.input().model().set_layout(runtime.ov.Layout("NCHW"))
    processor.input().tensor().set_layout(runtime.ov.Layout("NHWC"))
    assert str(processor.build().input().partial_shape) == "[?,4,6,3]"


def test_nodes_have_the_layouts_that_were_built_in(runtime: Any, model: Any) -> None:
    lay_out(runtime, model, "CNHW")
    assert layouts(runtime.core.compile_model(model, "CPU")) == ["[C,N,H,W]"] * 2
    processor = runtime.ov.preprocess.PrePostProcessor(model)
    processor.input().tensor().set_layout(runtime.ov.Layout("NCHW"))
    processor.output().tensor().set_layout(runtime.ov.Layout("NHWC"))
    model = processor.build()
    assert layouts(model) == ["[N,C,H,W]", "[N,H,W,C]"]
    assert runtime.ov.get_batch(model) == 3
    assert layouts(model.clone()) == layouts(runtime.core.compile_model(model, "CPU")) == layouts(model)


def test_an_output_takes_no_shape_that_its_layout_does_not_fit(runtime: Any) -> None:
    model = runtime.core.read_model(runtime.models["rankless"])
    model.output().node.layout = runtime.ov.Layout("NC")
    model.output().node.friendly_name = "numbers"
    reason = (
        r"Result 'opset1::Result numbers\[0\]:f32\[1,2,3\]' with shape \[1,2,3\] is incompatible with layout \[N,C\]"
    )
    with pytest.raises(RuntimeError, match=reason):
        model.reshape([1, 2, 3])
    assert str(model.input().partial_shape) == "[...]"
    model.reshape([2, 3])
    assert str(model.output().partial_shape) == "[2,3]"


def test_the_layout_of_a_file_can_be_taken_away(runtime: Any, picture_file: Path, tmp_path: Path) -> None:
    laid_out = openvino.Core().read_model(picture_file)
    laid_out.get_parameters()[0].set_layout(openvino.Layout("NCHW"))
    openvino.save_model(laid_out, tmp_path / "laid_out.xml", compress_to_fp16=False)
    model = runtime.core.read_model(tmp_path / "laid_out.xml")
    model.get_parameters()[0].set_layout(runtime.ov.Layout())
    processor = runtime.ov.preprocess.PrePostProcessor(model)
    processor.input().tensor().set_layout("NHWC")
    assert str(processor.build().input().partial_shape) == "[?,3,4,6]"


def test_a_layout_in_a_file_is_the_nodes(runtime: Any, picture_file: Path, tmp_path: Path) -> None:
    laid_out = openvino.Core().read_model(picture_file)
    laid_out.get_parameters()[0].set_layout(openvino.Layout("NCHW"))
    openvino.save_model(laid_out, tmp_path / "laid_out.xml", compress_to_fp16=False)
    model = runtime.core.read_model(tmp_path / "laid_out.xml")
    assert str(runtime.ov.layout_helpers.get_layout(model.input())) == "[N,C,H,W]"
    assert str(runtime.ov.get_batch(model)) == "?"


def test_one_of_two_inputs(runtime: Any, two: Any) -> None:
    two.input(1).tensor().set_from(np.zeros((1, 3), np.int64))
    got = run(runtime, two, np.array([[1.5, 2, 3]], np.float32), np.array([[1, 2, 3]], np.int64))
    np.testing.assert_array_equal(got, [[2.5, 4, 6]])


def test_a_shape_of_ones_own(runtime: Any, processor: Any) -> None:
    steps = processor.input().tensor().set_shape([1, 4, 6, 3]).set_layout("NHWC")
    assert steps is processor.input().tensor()
    processor.input().model().set_layout("NCHW")
    model = processor.build()
    assert described(model.input()) == ({"data"}, "f32", "[1,4,6,3]")


def test_planes_become_inputs(runtime: Any, processor: Any) -> None:
    ov = runtime.ov
    names = ["y", "uv"]
    color = ov.preprocess.ColorFormat.NV12_TWO_PLANES
    processor.input().tensor().set_element_type(ov.Type.u8).set_color_format(color, names)
    processor.input().model().set_layout("NCHW")
    processor.input().preprocess().convert_color(ov.preprocess.ColorFormat.RGB)
    model = processor.build()
    assert [described(port) for port in model.inputs] == [
        ({"data/y"}, "u8", "[?,4,6,1]"),
        ({"data/uv"}, "u8", "[?,2,3,2]"),
    ]


# --- the model


def test_the_model_itself_changes_and_has_new_inputs(processor: Any, model: Any, runtime: Any) -> None:
    old_input, old_output = model.input(), model.output()
    processor.input().tensor().set_element_type(runtime.ov.Type.u8)
    built = processor.build()
    assert described(built.input()) == described(model.input()) == ({"data"}, "u8", "[?,3,4,6]")
    assert described(old_input) == ({"data"}, "f32", "[?,3,4,6]")
    assert (old_input == built.input(), old_output == built.output()) == (False, True)
    assert built.friendly_name == "picture"


def test_a_built_model_can_be_reshaped_and_processed_again(runtime: Any, processor: Any) -> None:
    ov = runtime.ov
    processor.input().tensor().set_layout("NHWC")
    processor.input().model().set_layout("NCHW")
    model = processor.build()
    model.reshape([2, 8, 10, 3])
    assert described(model.output()) == ({"out"}, "f32", "[2,3,8,10]")
    again = ov.preprocess.PrePostProcessor(model)
    again.input().tensor().set_element_type(ov.Type.u8)
    model = again.build()
    model.reshape({"data": [-1, 8, 10, 3]})
    assert described(model.input()) == ({"data"}, "u8", "[?,8,10,3]")
    data = pixels(1, 8, 10, 3)
    got = runtime.core.compile_model(model, "CPU", EXACT)(data)[0]
    np.testing.assert_array_equal(got, data.transpose(0, 3, 1, 2).astype(np.float32))


def test_a_clone_of_a_built_model_is_built_as_well(runtime: Any, processor: Any) -> None:
    processor.input().tensor().set_element_type(runtime.ov.Type.u8)
    model = processor.build()
    clone = model.clone()
    assert described(clone.input()) == ({"data"}, "u8", "[?,3,4,6]")
    assert clone.input() != model.input()
    assert set(runtime.core.query_model(clone, "CPU").values()) == {"CPU"}


def test_building_twice_is_refused(processor: Any) -> None:
    processor.build()
    with pytest.raises(RuntimeError, match="Use only one InputInfo for one input parameter"):
        processor.build()


def test_the_dynamic_type_is_taken_and_refused_by_build(processor: Any, runtime: Any) -> None:
    processor.output().tensor().set_element_type(runtime.ov.Type.dynamic)
    with pytest.raises(RuntimeError, match="Can't convert to dynamic/unknown element type"):
        processor.build()


def test_what_openvino_refuses_is_refused_with_its_reason(processor: Any, runtime: Any) -> None:
    processor.input().tensor().set_element_type(runtime.ov.Type.u8)
    processor.input().preprocess().mean(3)
    with pytest.raises(RuntimeError, match="Mean preprocessing can be applied to 'float' inputs"):
        processor.build()


# --- what is given


def test_what_is_given_of_a_port_is_always_the_same(processor: Any, two: Any) -> None:
    assert processor.input() is processor.input("data") is processor.input(0)
    assert processor.output() is processor.output("out") is processor.output(0)
    assert two.input(tensor_name="b") is two.input(input_index=1)
    info = two.input("a")
    assert info is not two.input("b")
    assert info.tensor() is info.tensor()
    assert info.preprocess() is info.preprocess()
    assert info.model() is info.model()


def test_every_call_gives_its_part_back(runtime: Any, two: Any) -> None:
    pre, info, out = runtime.ov.preprocess, two.input("a"), two.output("sum")
    tensor, steps, post = info.tensor(), info.preprocess(), out.postprocess()
    assert tensor.set_memory_type("GPU_SURFACE") is tensor
    assert tensor.set_color_format(format=pre.ColorFormat.BGR, sub_names=[]) is tensor
    assert tensor.set_spatial_static_shape(height=3, width=4) is tensor
    assert steps.reverse_channels() is steps
    assert info.model().set_layout(layout=runtime.ov.Layout("NC")) is info.model()
    assert post.convert_element_type(type=runtime.ov.Type.f16) is post
    assert out.tensor().set_element_type(type=runtime.ov.Type.f16) is out.tensor()
    assert out.model().set_layout("NC") is out.model()


KEYS: dict[str, Callable[[Any], object]] = {
    "none of two inputs": lambda two: two.input(),
    "none of two outputs": lambda two: two.output(),
    "an unknown input": lambda two: two.input("c"),
    "an unknown output": lambda two: two.output("c"),
    "an input past the end": lambda two: two.input(2),
    "an output past the end": lambda two: two.output(2),
    "a negative position": lambda two: two.input(-1),
    "no key": lambda two: two.input(1.5),
    "two keys": lambda two: two.output(1, 2),
}

ARGUMENTS: dict[str, Callable[[Any, Any], object]] = {
    "a type's name": lambda ov, two: two.input(0).tensor().set_element_type("u8"),
    "a type's name for an output": lambda ov, two: two.output(0).tensor().set_element_type(np.uint8),
    "a type's name to convert to": lambda ov, two: two.input(0).preprocess().convert_element_type("f16"),
    "a number for a layout": lambda ov, two: two.input(0).model().set_layout(1),
    "a layout with a name twice": lambda ov, two: two.input(0).tensor().set_layout("QQ"),
    "a shape as text": lambda ov, two: two.input(0).tensor().set_shape("1,3"),
    "a negative height": lambda ov, two: two.input(0).tensor().set_spatial_static_shape(-1, 2),
    "a colour's name": lambda ov, two: two.input(0).tensor().set_color_format("BGR"),
    "a colour's name to convert to": lambda ov, two: two.input(0).preprocess().convert_color("BGR"),
    "a mean of text": lambda ov, two: two.input(0).preprocess().mean("x"),
    "a mean of texts": lambda ov, two: two.input(0).preprocess().mean(["1"]),
    "a mean of None": lambda ov, two: two.input(0).preprocess().mean(None),
    "a mean of lists": lambda ov, two: two.input(0).preprocess().mean([[1, 2]]),
    "no mean": lambda ov, two: two.input(0).preprocess().mean(),
    "a mean with an axis": lambda ov, two: two.input(0).preprocess().mean([1, 2], 3),
    "a negative position": lambda ov, two: two.input(0).preprocess().convert_layout([0, -3]),
    "no layout": lambda ov, two: two.input(0).preprocess().convert_layout(),
    "an algorithm's name": lambda ov, two: two.input(0).preprocess().resize("linear"),
    "a height alone": lambda ov, two: two.input(0).preprocess().resize(ov.preprocess.ResizeAlgorithm.RESIZE_LINEAR, 1),
    "a negative size": lambda ov, two: (
        two.input(0).preprocess().resize(ov.preprocess.ResizeAlgorithm.RESIZE_LINEAR, -1, 3)
    ),
    "a crop at a fraction": lambda ov, two: two.input(0).preprocess().crop([0.5, 0], [1, 1]),
    "a crop of two ranks": lambda ov, two: two.input(0).preprocess().crop([0, 0], [1, 2, 3]),
    "a border without mode": lambda ov, two: two.input(0).preprocess().pad([0], [0], 1.5),
    "a border's mode by name": lambda ov, two: two.input(0).preprocess().pad([0], [0], 1.5, "CONSTANT"),
    "too much to reverse": lambda ov, two: two.input(0).preprocess().reverse_channels(1),
    "a list to be like": lambda ov, two: two.input(0).tensor().set_from([[1, 2]]),
    "memory that is no text": lambda ov, two: two.input(0).tensor().set_memory_type(3),
    "a step that is no function": lambda ov, two: two.input(0).preprocess().custom(1),
    "a shape and a height": lambda ov, two: two.input(0).tensor().set_shape([1, 3]).set_spatial_static_shape(1, 2),
    "a shape and any height": lambda ov, two: two.input(0).tensor().set_shape([1, 3]).set_spatial_dynamic_shape(),
    "any height and a shape": lambda ov, two: two.input(0).tensor().set_spatial_dynamic_shape().set_shape([1, 3]),
    "names of no planes": lambda ov, two: two.input(0).tensor().set_color_format(ov.preprocess.ColorFormat.BGR, ["a"]),
    "names of one plane": lambda ov, two: (
        two.input(0).tensor().set_color_format(ov.preprocess.ColorFormat.NV12_SINGLE_PLANE, ["a"])
    ),
    "names of no colour": lambda ov, two: (
        two.input(0).tensor().set_color_format(ov.preprocess.ColorFormat.UNDEFINED, ["a"])
    ),
    "too few names": lambda ov, two: (
        two.input(0).tensor().set_color_format(ov.preprocess.ColorFormat.I420_THREE_PLANES, ["y", "u"])
    ),
}


def raised(call: Callable[[], object]) -> tuple[type[BaseException], str]:
    """An error's type, and what it says: the sentence behind openvino's check, but not a TypeError's overloads."""
    with pytest.raises((RuntimeError, TypeError)) as caught:
        call()
    kind = TypeError if isinstance(caught.value, TypeError) else RuntimeError
    return kind, "" if kind is TypeError else str(caught.value).strip().rpartition("\n")[2]


def local_two() -> Any:
    parameters: list[Any] = [op.parameter([1, 3], np.float32, name=name) for name in ("a", "b")]
    for parameter, name in zip(parameters, ("a", "b"), strict=True):
        parameter.output(0).set_names({name})
    results: list[Any] = []
    for name, node in (("sum", op.add(*parameters)), ("difference", op.subtract(*parameters))):
        node.output(0).set_names({name})
        results.append(op.result(node))
    return openvino.preprocess.PrePostProcessor(make_model(results, parameters, "two"))


@pytest.mark.parametrize("name", KEYS)
def test_a_key_that_finds_nothing(two: Any, name: str) -> None:
    local = local_two()
    assert raised(lambda: KEYS[name](two)) == raised(lambda: KEYS[name](local))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_argument_that_does_not_fit(runtime: Any, two: Any, name: str) -> None:
    local = local_two()
    expected = raised(lambda: ARGUMENTS[name](openvino, local))
    assert raised(lambda: ARGUMENTS[name](runtime.ov, two)) == expected


@pytest.mark.parametrize("value", ["x", None, 3])
def test_only_a_model_can_be_processed(runtime: Any, value: Any) -> None:
    with pytest.raises(TypeError, match="Incompatible `model` argument"):
        runtime.ov.preprocess.PrePostProcessor(value)


def test_an_empty_recording_reads_as_such(processor: Any) -> None:
    assert (repr(processor), str(processor)) == ("<PrePostProcessor: >", "")


# --- names

MEMBERS = ["name", "value"]
"""What Python's enumerations give to their members alone."""


@pytest.mark.parametrize("kind", ["ColorFormat", "ResizeAlgorithm", "PaddingMode"])
def test_members_have_openvinos_numbers(runtime: Any, kind: str) -> None:
    ours, theirs = getattr(runtime.ov.preprocess, kind), getattr(openvino.preprocess, kind)
    assert {name: int(each) for name, each in ours.__members__.items()} == {
        name: each.value for name, each in theirs.__members__.items()
    }
    for name, member in ours.__members__.items():
        own = getattr(theirs, name)
        assert (repr(member), str(member), member.name, member.value) == (repr(own), str(own), own.name, own.value)
        assert ours(own.value) == member
        assert member != own.value
        assert pickle.loads(pickle.dumps(member)) == copy.deepcopy(member) == member


def test_the_module_has_what_openvinos_has(runtime: Any) -> None:
    for name in filter(lambda each: each[0].isupper(), dir(openvino.preprocess)):
        ours, theirs = getattr(runtime.ov.preprocess, name), getattr(openvino.preprocess, name)
        assert [each for each in dir(theirs) if each[0] != "_" and not hasattr(ours, each)] in ([], MEMBERS)
    assert runtime.ov.preprocess.get_version() == runtime.ov.get_version()
