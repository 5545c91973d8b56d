"""Compiled models, cores and models that were read behave as openvino's."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

X: NDArray[np.float32] = np.array([[1, -2, 3]], np.float32)
RELU_X = [[1, 0, 3]]


def test_a_call_runs_the_model(runtime: Any) -> None:
    compiled = runtime.compile("relu")
    assert compiled(X.copy())[0].tolist() == RELU_X
    assert compiled({"data": X * 2}, share_inputs=False)["out"].tolist() == [[2, 0, 6]]
    assert compiled.infer_new_request({0: X})[0].tolist() == RELU_X
    with pytest.raises(TypeError):
        compiled.infer_new_request(X, share_inputs=True)


def test_a_call_shares_inputs_unless_told_otherwise(runtime: Any) -> None:
    compiled = runtime.compile("relu")
    array = X.copy()
    compiled(array)
    array[:] = 4
    assert compiled()[0].tolist() == [[4, 4, 4]]


def test_ports(runtime: Any) -> None:
    compiled = runtime.compile("two")
    assert repr(compiled.inputs) == (
        "[<ConstOutput: names[a] shape[1,3] type: f32>, <ConstOutput: names[b] shape[1,3] type: f32>]"
    )
    assert compiled.inputs[0] is compiled.inputs[0]
    assert compiled.input(1) == compiled.input("b") == compiled.inputs[1]
    assert compiled.output("difference") == compiled.outputs[1]
    assert compiled.input("a") != runtime.compile("two").input("a")
    assert compiled.input(0).node.friendly_name == "a"
    assert compiled.input(0).node.get_type_name() == "Parameter"
    assert compiled.output(0).node.get_type_name() == "Result"
    assert runtime.compile("relu").input().any_name == "data"
    assert runtime.compile("relu").output().any_name == "out"


def test_repr(runtime: Any) -> None:
    assert repr(runtime.compile("relu")) == (
        "<CompiledModel:\ninputs[\n<ConstOutput: names[data] shape[1,3] type: f32>\n]\n"
        "outputs[\n<ConstOutput: names[out] shape[1,3] type: f32>\n]>"
    )


NO_PORT: dict[str, tuple[Callable[[Any], object], type[Exception], str]] = {
    "input past the end": (lambda c: c.input(5), RuntimeError, "Cannot get input for index: 5 inputs size is 2"),
    "output past the end": (lambda c: c.output(5), RuntimeError, "Cannot get output for index: 5 outputs size is 2"),
    "input unknown": (lambda c: c.input("x"), RuntimeError, "Input for tensor name 'x' is not found."),
    "output unknown": (lambda c: c.output("x"), RuntimeError, "Output for tensor name 'x' is not found."),
    "one of two inputs": (
        lambda c: c.input(),
        RuntimeError,
        r"CompiledModel::input\(\) must be called on a compiled model with exactly one parameter.",
    ),
    "one of two outputs": (
        lambda c: c.output(),
        RuntimeError,
        r"CompiledModel::output\(\) must be called on a compiled model with exactly one",
    ),
    "input negative": (lambda c: c.input(-1), TypeError, r"input\(\): incompatible function arguments"),
    "output of a float": (lambda c: c.output(1.5), TypeError, r"output\(\): incompatible function arguments"),
}


@pytest.mark.parametrize(("call", "kind", "text"), NO_PORT.values(), ids=NO_PORT.keys())
def test_a_port_that_is_not_there(
    runtime: Any, call: Callable[[Any], object], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        call(runtime.compile("two"))


def test_properties(runtime: Any) -> None:
    compiled = runtime.compile("relu", PERFORMANCE_HINT="THROUGHPUT")
    properties = runtime.ov.properties
    assert compiled.get_property("NETWORK_NAME") == compiled.get_property(properties.model_name) == "mirrored"
    assert compiled.get_property("INFERENCE_PRECISION_HINT") == runtime.ov.Type.f32
    assert compiled.get_property("EXECUTION_MODE_HINT") == properties.hint.ExecutionMode.PERFORMANCE
    assert compiled.get_property("EXECUTION_DEVICES") == ["CPU"]
    assert compiled.get_property("SUPPORTED_PROPERTIES")["NETWORK_NAME"] == "RO"
    assert isinstance(compiled.get_property("ENABLE_CPU_PINNING"), bool)
    with pytest.raises(RuntimeError, match="Unsupported property: NOPE"):
        compiled.get_property("NOPE")
    for given in ({"NUM_STREAMS": 1}, {}, ("NUM_STREAMS", 1)):
        with pytest.raises(RuntimeError, match="It's not possible to set property of an already compiled model"):
            compiled.set_property(given)
    for arguments in ((), (3,), ("NUM_STREAMS", 1), ({}, {})):
        with pytest.raises(TypeError, match=r"set_property\(\): incompatible function arguments"):
            compiled.set_property(*arguments)


def test_properties_to_compile_with(runtime: Any, models: dict[str, Path]) -> None:
    hint = runtime.ov.properties.hint
    config = {hint.performance_mode: hint.PerformanceMode.THROUGHPUT, hint.inference_precision: runtime.ov.Type.f32}
    compiled = runtime.core.compile_model(models["relu"], "CPU", config)
    assert compiled.get_property(hint.performance_mode) == "THROUGHPUT"
    assert compiled.get_property(hint.inference_precision) == runtime.ov.Type.f32
    pairs = dict([runtime.ov.properties.inference_num_threads(1), hint.inference_precision(runtime.ov.Type.f32)])
    assert runtime.core.compile_model(models["relu"], "CPU", pairs).get_property("INFERENCE_NUM_THREADS") == 1


def test_properties_of_the_device_that_batch_runs_on(runtime: Any, models: dict[str, Path]) -> None:
    hint = runtime.ov.properties.hint
    config = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32", "PERF_COUNT": True}
    compiled = runtime.core.compile_model(models["relu"], "BATCH:CPU(4)", config)
    assert compiled.get_property(hint.performance_mode) == "LATENCY"
    assert compiled.get_property(hint.inference_precision) == runtime.ov.Type.f32
    assert compiled.get_property(hint.execution_mode) == hint.ExecutionMode.PERFORMANCE
    assert (compiled.get_property("NUM_STREAMS"), compiled.get_property("PERF_COUNT")) == (1, True)
    assert "NUM_STREAMS" not in compiled.get_property("SUPPORTED_PROPERTIES")


def test_batch_says_all_that_its_device_does(runtime: Any, models: dict[str, Path]) -> None:
    config = {"PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False, "ENABLE_HYPER_THREADING": False}
    compiled = runtime.core.compile_model(models["relu"], "BATCH:CPU(4)", config)
    ((device, below),) = compiled.get_property("DEVICE_PROPERTIES").items()
    assert device == "CPU"
    read = {name: compiled.get_property(name) for name in below}
    assert {name: read[name] for name in config} == {name: below[name] for name in config} == config


def test_heterogeneous_models_say_how_they_are_split(runtime: Any, models: dict[str, Path]) -> None:
    policy = {runtime.ov.properties.hint.ModelDistributionPolicy.PIPELINE_PARALLEL}
    compiled = runtime.core.compile_model(models["relu"], "HETERO:CPU", {"MODEL_DISTRIBUTION_POLICY": policy})
    assert compiled.get_property("MODEL_DISTRIBUTION_POLICY") == policy


@pytest.mark.parametrize("device", ["AUTO", "AUTO:CPU", "MULTI:CPU"])
def test_buffers_may_be_bound_to_devices(runtime: Any, models: dict[str, Path], device: str) -> None:
    for bound in ({runtime.ov.properties.intel_auto.device_bind_buffer: True}, {"DEVICE_BIND_BUFFER": "YES"}):
        assert runtime.core.compile_model(models["relu"], device, bound)(X)[0].tolist() == RELU_X
    with pytest.raises(RuntimeError, match="Invalid value for property DEVICE_BIND_BUFFER: Y"):
        runtime.core.compile_model(models["relu"], device, {"DEVICE_BIND_BUFFER": "Y"})
    with pytest.raises(RuntimeError, match="Unsupported property DEVICE_BIND_BUFFER by CPU plugin"):
        runtime.core.compile_model(models["relu"], "CPU", bound)


@pytest.mark.parametrize("device", [None, "CPU", "AUTO", "AUTO:CPU", "HETERO:CPU", "MULTI:CPU", "BATCH:CPU(4)"])
def test_devices(runtime: Any, models: dict[str, Path], device: str | None) -> None:
    compiled = runtime.core.compile_model(models["relu"], device)
    assert compiled(X)[0].tolist() == RELU_X


REFUSED: dict[str, tuple[Callable[[Any, Path], object], type[Exception], str]] = {
    "a number to compile": (
        lambda core, xml: core.compile_model(3),
        RuntimeError,
        "Path: '3' does not exist. Please provide valid model's path either as a string, bytes or pathlib.Path",
    ),
    "a number to read": (
        lambda core, xml: core.read_model(3),
        TypeError,
        "Provided python object type <class 'int'> isn't supported as 'model' argument.",
    ),
    "a file that is not there": (
        lambda core, xml: core.read_model("/nowhere/model.xml"),
        RuntimeError,
        'Could not open the file: "/nowhere/model.xml"',
    ),
    "no model": (
        lambda core, xml: core.read_model(b"garbage"),
        RuntimeError,
        "Unable to read the model",
    ),
    "an unknown device": (
        lambda core, xml: core.compile_model(xml, "XPU"),
        RuntimeError,
        'Device with "XPU" name is not registered in the OpenVINO Runtime',
    ),
    "an unknown property": (
        lambda core, xml: core.compile_model(xml, "CPU", {"NOPE": 1}),
        RuntimeError,
        "Unsupported property NOPE by CPU plugin.",
    ),
    "a property of no device": (
        lambda core, xml: core.get_property("CPU", "NOPE"),
        RuntimeError,
        "Cannot get unsupported property: NOPE",
    ),
    "a property of an unknown device": (
        lambda core, xml: core.get_property("XPU", "NOPE"),
        RuntimeError,
        'Device with "XPU" name is not registered in the OpenVINO Runtime',
    ),
}


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_a_core_refuses(
    runtime: Any,
    models: dict[str, Path],
    call: Callable[[Any, Path], object],
    kind: type[Exception],
    text: str,
) -> None:
    with pytest.raises(kind, match=text):
        call(runtime.core, models["relu"])


def test_devices_and_versions(runtime: Any) -> None:
    core = runtime.core
    assert "CPU" in core.available_devices
    assert core.get_available_devices() == core.available_devices
    version = core.get_versions("CPU")["CPU"]
    assert version.description == "openvino_intel_cpu_plugin"
    assert (version.major, version.minor) >= (2026, 4)
    assert repr(version) == f"<Version: {version.build_number} {version.description}>"
    assert core.get_versions("XPU") == {}
    assert "CPU" in core.get_property("CPU", "FULL_DEVICE_NAME") or core.get_property("CPU", "FULL_DEVICE_NAME")
    assert runtime.ov.properties.device.Capability.FP32 in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def test_a_model_that_was_read(runtime: Any, models: dict[str, Path]) -> None:
    model = runtime.core.read_model(models["dynamic"])
    assert repr(model.inputs) == "[<Output: names[data] shape[?,3] type: f32>]"
    assert model.friendly_name == model.get_friendly_name() == "mirrored"
    assert model.is_dynamic()
    assert model.dynamic
    assert model.input().any_name == model.input(0).any_name == model.input("data").any_name == "data"
    assert model.output("out").any_name == "out"
    for call, kind, text in (
        (lambda: model.input(5), IndexError, r"vector::_M_range_check: __n \(which is 5\)"),
        (lambda: model.input("zz"), RuntimeError, "Input for tensor name 'zz' is not found."),
        (lambda: model.output("zz"), RuntimeError, "Output for tensor name 'zz' is not found."),
        (
            lambda: runtime.core.read_model(models["two"]).input(),
            RuntimeError,
            r"input\(\) must be called on a Model with exactly one parameter.",
        ),
    ):
        with pytest.raises(kind, match=text):
            call()


def test_a_model_of_another_shape(runtime: Any, models: dict[str, Path]) -> None:
    model = runtime.core.read_model(models["dynamic"])
    model.reshape([2, 3])
    compiled = runtime.core.compile_model(model, "CPU")
    assert list(compiled.input().shape) == [2, 3]
    assert compiled(np.ones((2, 3), np.float32))[0].shape == (2, 3)


def test_nothing_can_be_pickled(runtime: Any) -> None:
    compiled = runtime.compile("relu")
    queue = runtime.ov.AsyncInferQueue(compiled, 1)
    vector = runtime.ov.TensorVector()
    for thing in (compiled, compiled.create_infer_request(), runtime.core, queue, vector):
        for kept in (pickle.dumps, copy.deepcopy, copy.copy):
            with pytest.raises(TypeError, match="cannot pickle"):
                kept(thing)


@pytest.mark.parametrize(("name", "value"), [("LOADED_FROM_CACHE", False), ("DEVICE_ID", "")])
def test_properties_that_are_not_listed_are_read(runtime: Any, name: str, value: object) -> None:
    compiled = runtime.compile("relu")
    assert name not in compiled.get_property("SUPPORTED_PROPERTIES")
    assert compiled.get_property(name) == value


def test_a_class_derived_from_a_compiled_model(runtime: Any, models: dict[str, Path]) -> None:
    class Classifier(runtime.ov.CompiledModel):
        def __init__(self, path: Path) -> None:
            super().__init__(runtime.core.compile_model(path, "CPU"))

    model = Classifier(models["relu"])
    assert repr(model).startswith("<Classifier:\ninputs[")
    assert model.inputs[0].any_name == model.input("data").any_name == "data"
    assert model(np.array([[-1, 2, 3]], np.float32))["out"].tolist() == [[0, 2, 3]]
    request = model.create_infer_request()
    assert request.infer(np.array([[-1, 2, 3]], np.float32))["out"].tolist() == [[0, 2, 3]]
    assert type(request.get_compiled_model()) is runtime.ov.CompiledModel
    assert len(runtime.ov.AsyncInferQueue(model, 2)) == 2


def test_a_compiled_model_of_another(runtime: Any) -> None:
    model = runtime.compile("relu")
    for same in (runtime.ov.CompiledModel(model), runtime.ov.CompiledModel(other=model)):
        assert same.infer_new_request(np.array([[-1, 2, 3]], np.float32))["out"].tolist() == [[0, 2, 3]]
    for wrong in (3, None, model.create_infer_request()):
        with pytest.raises(TypeError, match=r"__init__\(\): incompatible constructor arguments"):
            runtime.ov.CompiledModel(wrong)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'other'"):
        runtime.ov.CompiledModel()
    with pytest.raises(TypeError, match="unexpected keyword argument 'model'"):
        runtime.ov.CompiledModel(model=model)
