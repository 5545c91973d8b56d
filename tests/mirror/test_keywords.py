"""Arguments by name, in any order: each goes where its name says, and a name that is none is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.mirror.conftest import Runtime

ROW = np.ones((1, 3), np.float32)


@pytest.fixture
def request_(runtime: Runtime) -> Any:
    return runtime.compile("two").create_infer_request()


def test_a_property_is_read_by_names_in_any_order(runtime: Runtime) -> None:
    assert runtime.core.get_property(
        property="OPTIMIZATION_CAPABILITIES", device_name="CPU"
    ) == runtime.core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def test_a_property_with_arguments_is_read_by_names(runtime: Runtime) -> None:
    expected = runtime.core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    assert (
        runtime.core.get_property(device_name="CPU", name="OPTIMIZATION_CAPABILITIES", arguments={})
        == runtime.core.get_property("CPU", "OPTIMIZATION_CAPABILITIES", arguments={})
        == expected
    )


def test_ports_of_nodes_and_positions_of_results_are_found_by_openvinos_names(runtime: Runtime) -> None:
    model = runtime.core.read_model(runtime.models["two"])
    assert model.get_parameters()[1].output(output_index=0).get_any_name() == "b"
    assert model.get_result_index(value=model.outputs[1]) == model.get_result_index(result=model.get_results()[1]) == 1


@pytest.mark.parametrize(
    "keywords",
    [
        {"device_name": "CPU", "properties": {"NUM_STREAMS": 1}},
        {"properties": {"NUM_STREAMS": 1}, "device_name": "CPU"},
        {"property": ("NUM_STREAMS", 1), "device_name": "CPU"},
    ],
)
def test_a_property_is_set_by_names_in_any_order(runtime: Runtime, keywords: dict[str, Any]) -> None:
    core = runtime.new_core()
    core.set_property(**keywords)
    assert core.get_property("CPU", "NUM_STREAMS") == 1


def test_a_batch_is_set_by_names_in_any_order(runtime: Runtime) -> None:
    rows = [runtime.ov.Tensor(ROW), runtime.ov.Tensor(ROW)]
    model = runtime.core.read_model(runtime.models["dynamic"])
    runtime.ov.layout_helpers.set_layout(port=model.input(), layout=runtime.ov.Layout("NC"))
    model.reshape([2, 3])
    request = runtime.core.compile_model(model, "CPU").create_infer_request()
    request.set_tensors(tensors=rows, tensor_name="data")
    request.infer()
    request.set_input_tensors(tensors=rows, idx=0)
    request.infer()
    assert list(request.get_output_tensor().shape) == [2, 3]


def test_a_tensor_is_got_and_set_by_name_and_by_port(runtime: Runtime, request_: Any) -> None:
    request_.set_tensor(tensor=runtime.ov.Tensor(ROW), name="a")
    assert request_.get_tensor(name="a").data.tolist() == ROW.tolist()
    port = request_.get_compiled_model().input("a")
    request_.set_tensor(tensor=runtime.ov.Tensor(ROW * 2), port=port)
    assert request_.get_tensor(port=port).data.tolist() == (ROW * 2).tolist()


def test_tensors_shapes_and_strides_take_openvinos_names(runtime: Runtime) -> None:
    ov = runtime.ov
    tensor = ov.Tensor(np.zeros((2,), np.float32))
    tensor.copy_from(source_tensor=ov.Tensor(np.ones((2,), np.float32)))
    assert tensor.data.tolist() == [1, 1]
    tensor.copy_from(source=np.full((2,), 3, np.float32))
    assert tensor.data.tolist() == [3, 3]
    assert list(ov.Shape(shape="1,2")) == [1, 2]
    assert list(ov.Strides(axis_strides=[4])) == [4]


WRONG: list[Callable[[Runtime, Any], object]] = [
    lambda runtime, request: request.get_compiled_model().input(foo=0),
    lambda runtime, request: request.get_compiled_model().output(foo="a"),
    lambda runtime, request: request.get_tensor(index=0),
    lambda runtime, request: request.get_input_tensor(idx=0),
    lambda runtime, request: request.set_tensor(tensor=runtime.ov.Tensor(ROW), foo="a"),
    lambda runtime, request: request.set_tensors(foo=[]),
    lambda runtime, request: request.set_input_tensors(foo=[]),
    lambda runtime, request: runtime.core.get_property(foo="CPU", bar="FULL_DEVICE_NAME"),
    lambda runtime, request: runtime.core.get_property(device_name="CPU", property="FULL_DEVICE_NAME", arguments={}),
    lambda runtime, request: runtime.core.set_property(foo={"NUM_STREAMS": 1}),
    lambda runtime, request: runtime.core.read_model(runtime.models["two"]).input(foo="a"),
    lambda runtime, request: runtime.core.read_model(runtime.models["two"]).get_ops()[0].output(index=0),
    lambda runtime, request: runtime.core.read_model(runtime.models["two"]).get_result_index(foo=0),
    lambda runtime, request: runtime.core.read_model(runtime.models["two"]).get_result_index(0),
    lambda runtime, request: runtime.ov.preprocess.PrePostProcessor(
        runtime.core.read_model(runtime.models["two"])
    ).input(foo=0),
    lambda runtime, request: runtime.ov.set_batch(runtime.core.read_model(runtime.models["two"]), foo=2),
    lambda runtime, request: runtime.ov.Tensor(ROW).copy_from(source=runtime.ov.Tensor(ROW)),
    lambda runtime, request: runtime.ov.Tensor(ROW).copy_from(source_tensor=ROW),
]


@pytest.mark.parametrize("call", WRONG)
def test_a_name_that_is_none_is_refused(
    runtime: Runtime, request_: Any, call: Callable[[Runtime, Any], object]
) -> None:
    with pytest.raises(TypeError):
        call(runtime, request_)
