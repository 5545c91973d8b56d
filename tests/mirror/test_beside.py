"""Values of an openvino that is installed beside the client are taken for ours, and equal them."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from numpy.typing import NDArray

import inferwire as ov
from inferwire.property_values import to_contract
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.properties import EnumValue

X: NDArray[np.float32] = np.array([[1, -2, 3]], np.float32)
RELU_X = [[1, 0, 3]]
TYPES = ("dynamic", *BY_NAME)


@pytest.fixture(scope="module")
def core(server_address: str) -> ov.Core:
    return ov.Core(server_address)


@pytest.fixture(scope="module")
def local(models: Any) -> openvino.Model:
    return openvino.Core().read_model(models["relu"])


@pytest.fixture
def request_(core: ov.Core, models: Any) -> ov.InferRequest:
    return core.compile_model(models["relu"], "CPU").create_infer_request()


@pytest.mark.parametrize("name", TYPES)
def test_types_are_equal_with_equal_hashes(name: str) -> None:
    ours, theirs = getattr(ov.Type, name), getattr(openvino.Type, name)
    others = [getattr(openvino.Type, other) for other in TYPES if other != name]
    assert ours == theirs
    assert theirs == ours
    assert hash(ours) == hash(theirs)
    assert not any(ours == other or other == ours for other in others)


EQUAL: dict[str, tuple[object, object, object]] = {
    "a shape": (ov.Shape([1, 3]), openvino.Shape([1, 3]), openvino.Shape([1, 4])),
    "strides": (ov.Strides([1, 3]), openvino.Strides([1, 3]), openvino.Strides([3, 1])),
    "a dimension": (ov.Dimension(3), openvino.Dimension(3), openvino.Dimension(4)),
    "a range": (ov.Dimension(1, 8), openvino.Dimension(1, 8), openvino.Dimension(1, -1)),
    "no bound": (ov.Dimension(1, -1), openvino.Dimension(1, -1), openvino.Dimension()),
    "a partial shape": (ov.PartialShape("?,3"), openvino.PartialShape("?,3"), openvino.PartialShape("1,3")),
    "a rank": (ov.PartialShape("..."), openvino.PartialShape("..."), openvino.PartialShape("?")),
    "a static shape": (ov.PartialShape([1, 3]), openvino.Shape([1, 3]), openvino.Shape([1])),
    "a layout": (ov.Layout("NCHW"), openvino.Layout("NCHW"), openvino.Layout("NHWC")),
}


def test_another_enumeration_of_that_name_is_no_element_type() -> None:
    kind = openvino.properties.device.Type.DISCRETE
    assert (openvino.Type.f32 == kind) is (ov.Type.f32 == kind) is False
    ours = ov.properties.device.Type.DISCRETE
    assert ours == kind
    assert ours != openvino.Type.f32


@pytest.mark.parametrize(("ours", "theirs", "other"), EQUAL.values(), ids=EQUAL.keys())
def test_values_are_equal(ours: object, theirs: object, other: object) -> None:
    assert ours == theirs
    assert theirs == ours
    assert ours != other
    assert other != ours


def test_a_type_that_only_a_newer_openvino_has_is_none_of_ours() -> None:
    class Type:
        __module__ = "openvino._pyopenvino"

        def get_type_name(self) -> str:
            return "f3e1m1"

    newer: Any = Type()
    assert (ov.Type.f32 == newer) is False
    with pytest.raises(TypeError, match=r"compatible\(\): incompatible function arguments"):
        ov.Type.f32.compatible(newer)
    with pytest.raises(TypeError, match="a property's value cannot be of type Type"):
        to_contract(newer)


def test_values_are_made_of_theirs() -> None:
    assert ov.Type(openvino.Type.bf16) is ov.Type.bf16  # pyright: ignore[reportArgumentType]
    assert str(ov.PartialShape(openvino.PartialShape("?,1..3"))) == "[?,1..3]"  # pyright: ignore[reportArgumentType]
    assert str(ov.PartialShape([openvino.Dimension(1, 8), 3])) == "[1..8,3]"
    assert ov.Shape(openvino.Shape([1, 3])) == [1, 3]
    assert ov.PartialShape("1,3").refines(openvino.PartialShape("?,3"))  # pyright: ignore[reportArgumentType]
    assert ov.Dimension(3).compatible(openvino.Dimension(1, 8))  # pyright: ignore[reportArgumentType]
    assert ov.Type.f32.compatible(openvino.Type.dynamic)  # pyright: ignore[reportArgumentType]
    assert str(ov.PartialShape.dynamic(openvino.Dimension(2))) == "[?,?]"  # pyright: ignore[reportArgumentType]
    shape = ov.Shape([1, 3])
    shape[0] = openvino.Dimension(2)  # pyright: ignore[reportArgumentType]
    assert shape == [2, 3]


TENSORS: dict[str, Callable[[], Any]] = {
    "a type and a shape": lambda: ov.Tensor(openvino.Type.f32, openvino.Shape([1, 3])),  # pyright: ignore
    "a port": lambda: ov.Tensor(openvino.Core().read_model(sigmoid()).input()),  # pyright: ignore
    "an array with a type": lambda: ov.Tensor(X, openvino.Shape([1, 3]), openvino.Type.f32),  # pyright: ignore
    "a region": lambda: ov.Tensor(openvino.Tensor(np.zeros((4, 3), np.float32)), [0, 0], [1, 3]),  # pyright: ignore
}


def sigmoid() -> Path:
    return Path(__file__).resolve().parents[1] / "data/sigmoid.onnx"


@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS.keys())
def test_tensors_are_made_of_theirs(make: Callable[[], Any]) -> None:
    assert make().element_type == openvino.Type.f32


@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "i64", "u8", "boolean", "u4", "i4", "f8e4m3"])
def test_a_tensor_shares_the_memory_of_theirs(request_: ov.InferRequest, name: str) -> None:
    theirs = openvino.Tensor(getattr(openvino.Type, name), [2, 4])
    theirs.data[:] = 0
    ours = ov.Tensor(getattr(ov.Type, name), [2, 4])
    ours.data[:] = 1
    ours.copy_to(theirs)  # pyright: ignore[reportArgumentType]
    assert theirs.data.tolist() == ours.data.tolist()
    theirs.data[:] = 0
    ours.copy_from(theirs)  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert not ours.data.any()


def test_strings_are_copied() -> None:
    ours = ov.Tensor(ov.Type.string, [2])
    theirs = openvino.Tensor(np.array(["abc", "äö"]))
    ours.copy_from(theirs)  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert ours.str_data.tolist() == ["abc", "äö"]


GIVEN: dict[str, Callable[[openvino.Tensor, openvino.Model], Any]] = {
    "a tensor": lambda tensor, local: tensor,
    "by position": lambda tensor, local: {0: tensor},
    "in a list": lambda tensor, local: [tensor],
    "by port": lambda tensor, local: {local.input(): tensor},
    "an array by port": lambda tensor, local: {local.input(): X},
    "results": lambda tensor, local: openvino.Core().compile_model(local, "CPU")(X),
}


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("give", GIVEN.values(), ids=GIVEN.keys())
def test_inputs(request_: ov.InferRequest, local: openvino.Model, give: Callable[..., Any], share: bool) -> None:
    assert request_.infer(give(openvino.Tensor(X), local), share)[0].tolist() == RELU_X


def test_a_region_with_gaps_is_an_input(request_: ov.InferRequest) -> None:
    whole = openvino.Tensor(np.tile(X, (1, 2)))
    assert request_.infer(openvino.Tensor(whole, [0, 0], [1, 3]))[0].tolist() == RELU_X


def test_tensors_are_set_and_read_by_their_ports(request_: ov.InferRequest, local: openvino.Model) -> None:
    port: Any = local.input()
    tensor: Any = openvino.Tensor(X)
    several: Any = openvino.TensorVector([tensor])
    for set_it in (
        lambda: request_.set_tensor(port, tensor),
        lambda: request_.set_tensor("data", tensor),
        lambda: request_.set_input_tensor(tensor),
        lambda: request_.set_tensors({port: tensor}),
        lambda: request_.set_input_tensors({0: tensor}),
        lambda: request_.set_tensors(port, [tensor]),
        lambda: request_.set_tensors(port, several),
        lambda: request_.set_input_tensors(ov.TensorVector([tensor])),
    ):
        request_.set_input_tensor(ov.Tensor(np.zeros((1, 3), np.float32)))
        set_it()
        assert request_.infer()[0].tolist() == RELU_X
    assert np.shares_memory(request_.get_tensor(port).data, tensor.data)


def test_an_output_is_written_into_their_tensor(request_: ov.InferRequest) -> None:
    theirs = openvino.Tensor(np.zeros((1, 3), np.float32))
    request_.set_output_tensor(theirs)  # pyright: ignore[reportArgumentType, reportCallIssue]
    request_.infer(X)
    assert theirs.data.tolist() == RELU_X


def test_results_are_read_by_their_ports(request_: ov.InferRequest, local: openvino.Model) -> None:
    theirs: Any = openvino.Core().compile_model(local, "CPU")
    results = request_.infer(X)
    assert results[theirs.output()] is results[0]
    assert theirs.output() in results
    assert theirs.input() not in results
    with pytest.raises(KeyError, match="data"):
        results[theirs.input()]


def test_a_layout_is_read_of_their_ports(local: openvino.Model) -> None:
    port: Any = local.clone().input()
    assert ov.layout_helpers.get_layout(port).empty
    openvino.layout_helpers.set_layout(port, openvino.Layout("NC"))
    assert ov.layout_helpers.get_layout(port) == "NC"
    with pytest.raises(TypeError, match="incompatible function arguments"):
        ov.layout_helpers.set_layout(port, ov.Layout("CN"))


@pytest.mark.parametrize("value", [5, "x", [1, 2], {"a": 1}])
def test_what_is_in_their_values_of_any_type_is_in_ours(core: ov.Core, models: Any, value: Any) -> None:
    theirs, model = openvino.OVAny(value), core.read_model(models["relu"])
    model.set_rt_info(theirs, "z")
    given = ov.OVAny("")
    given.set(theirs)
    for ours in (ov.OVAny(theirs), given, model.get_rt_info("z")):
        assert ours.value == value
        assert type(ours.value) is type(value)
        assert ours == theirs
    assert ov.OVAny(openvino.OVAny("5")).astype(int) == 5


ENUMERATIONS = [
    *((ov.properties.hint, openvino.properties.hint, name) for name in ("PerformanceMode", "Priority")),
    (ov.properties.log, openvino.properties.log, "Level"),
    *((ov.preprocess, openvino.preprocess, name) for name in ("ColorFormat", "PaddingMode", "ResizeAlgorithm")),
]


@pytest.mark.parametrize(("ours", "theirs", "name"), ENUMERATIONS, ids=[name for *_, name in ENUMERATIONS])
def test_members_of_enumerations_equal_theirs(ours: Any, theirs: Any, name: str) -> None:
    members = getattr(ours, name).__members__
    for each, member in members.items():
        known = getattr(getattr(theirs, name), each)
        assert hash(member) == hash(known)
        assert all((other == known) is (other is member) for other in members.values())


def test_a_model_is_reshaped_by_their_values(core: ov.Core, models: Any) -> None:
    model = core.read_model(models["dynamic"])
    port = openvino.Core().read_model(models["dynamic"]).input()
    model.reshape({port: openvino.PartialShape([2, 3])})
    assert model.input().shape == openvino.Shape([2, 3])
    model.reshape([openvino.Dimension(4), 3])
    assert model.input().shape == (4, 3)


def test_their_model_is_read_and_compiled(core: ov.Core, local: openvino.Model) -> None:
    assert core.read_model(local).input().partial_shape == local.input().partial_shape
    assert core.compile_model(local, "CPU")(X)[0].tolist() == RELU_X


PROPERTIES = {
    "a type": (openvino.Type.f32, BY_NAME["f32"]),
    "another enumeration of that name": (
        openvino.properties.device.Type.DISCRETE,
        EnumValue("device.Type", "DISCRETE"),
    ),
    "any": (openvino.OVAny(3), 3),
    "a number of streams": (openvino.properties.streams.Num(2), 2),
}


@pytest.mark.parametrize(("value", "expected"), PROPERTIES.values(), ids=PROPERTIES.keys())
def test_properties_have_their_values(value: object, expected: object) -> None:
    assert to_contract(value) == expected


def test_their_enumerations_are_values_of_our_properties() -> None:
    hint, theirs = ov.properties.hint, openvino.properties.hint
    for given, expected in (
        (hint.performance_mode(theirs.PerformanceMode.LATENCY), hint.PerformanceMode.LATENCY),
        (hint.model_priority(theirs.Priority.DEFAULT), hint.Priority.MEDIUM),
        (
            hint.model_distribution_policy({theirs.ModelDistributionPolicy.PIPELINE_PARALLEL}),
            {hint.ModelDistributionPolicy.PIPELINE_PARALLEL},
        ),
        (ov.properties.streams.num(openvino.properties.streams.Num(2)), 2),
    ):
        assert given[1].value == expected
    assert hint.compiled_blob(openvino.Tensor(X))[1].value.data.tolist() == X.tolist()
    with pytest.raises(TypeError, match=r"PERFORMANCE_HINT\(\): incompatible function arguments"):
        hint.performance_mode(theirs.Priority.HIGH)


def test_a_model_is_compiled_with_their_properties(core: ov.Core, models: Any) -> None:
    hint: Any = openvino.properties.hint
    config: dict[str, Any] = {hint.inference_precision: openvino.Type.f32, **dict([hint.num_requests(2)])}
    compiled = core.compile_model(models["relu"], "CPU", config)
    assert compiled.get_property(hint.inference_precision) == openvino.Type.f32
    assert ov.properties.hint.inference_precision(openvino.Type.f32)[1].value is ov.Type.f32


def record(processor: ov.preprocess.PrePostProcessor, values: Any) -> None:
    """Record a call of each kind with the values of a module."""
    choices = values.preprocess
    tensor = processor.input().tensor()
    tensor.set_element_type(values.Type.u8).set_layout(values.Layout("NC")).set_shape(values.PartialShape("?,3"))
    tensor.set_color_format(choices.ColorFormat.NV12_TWO_PLANES, ["y", "uv"]).set_from(values.Tensor(X))
    steps = processor.input().preprocess()
    steps.convert_element_type(values.Type.f32).convert_element_type(values.Type.dynamic)
    steps.convert_layout(values.Layout("N...C")).convert_color(choices.ColorFormat.BGR)
    steps.resize(choices.ResizeAlgorithm.RESIZE_CUBIC).pad([0, 0], [1, 1], 0, choices.PaddingMode.REFLECT)
    processor.output().tensor().set_element_type(values.Type.f16)


def test_preprocessing_is_recorded_with_their_values(core: ov.Core, models: Any) -> None:
    model = core.read_model(models["relu"])
    with_ours, with_theirs = ov.preprocess.PrePostProcessor(model), ov.preprocess.PrePostProcessor(model)
    record(with_ours, ov)
    record(with_theirs, openvino)
    assert str(with_theirs) == str(with_ours)


def test_preprocessing_is_built_in_with_their_values(core: ov.Core, models: Any) -> None:
    processor = ov.preprocess.PrePostProcessor(core.read_model(models["relu"]))
    given: Any = openvino.Type.u8
    processor.input().tensor().set_element_type(given)
    compiled = core.compile_model(processor.build(), "CPU")
    assert compiled(np.array([[1, 2, 3]], np.uint8))[0].tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("function", [ov.preprocess.PrePostProcessor, ov.get_batch, ov.set_batch])
def test_what_takes_read_models_alone_says_what_makes_one_of_theirs(function: Any, core: ov.Core, models: Any) -> None:
    theirs = openvino.Core().read_model(models["relu"])
    with pytest.raises(TypeError, match=r"; Core\.read_model\(\) makes one of an installed openvino's\.$"):
        function(theirs)
    with pytest.raises(TypeError, match=r"valid openvino\.Model instance\.$"):
        function("a model")
    ov.preprocess.PrePostProcessor(core.read_model(theirs))


def test_models_and_states_are_made_of_their_tensors(core: ov.Core, models: Any) -> None:
    path = models["many_states"]
    weights: Any = openvino.Tensor(np.fromfile(path.with_suffix(".bin"), np.uint8))
    for model in (path, path.read_text()):
        compiled = core.compile_model(core.read_model(model, weights), "CPU")
        assert compiled(np.ones(1, np.float32))[0].tolist() == [22]
    compiled.export_model(exported := io.BytesIO())
    blob: Any = openvino.Tensor(np.frombuffer(exported.getbuffer(), np.uint8))
    request = core.import_model(blob, "CPU").create_infer_request()
    state: Any = request.query_state()[0]
    state.state = openvino.Tensor(np.full(1, 100, np.float32))
    assert state.state.data.tolist() == [100]
    assert request.infer(np.ones(1, np.float32))[0].tolist() == [122]


def test_openvino_is_not_imported_for_it() -> None:
    code = "import sys, inferwire as ov; ov.Type.f32 == 3; ov.Shape([1]) == object(); print('openvino' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
