"""Properties of a core are checked when they are set, read back with their types, and go with what is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest

import inferwire

ONES = np.ones((1, 3), np.float32)


@pytest.fixture
def core(runtime: Any) -> Any:
    """A core of the test's own, since what is set stays with it; openvino checks nothing before it has the plugin."""
    own = runtime.new_core()
    assert own.get_versions("CPU")
    assert own.get_versions("AUTO")
    return own


def test_what_was_set_is_read_back_with_openvinos_types(runtime: Any, core: Any) -> None:
    props = runtime.ov.properties
    core.set_property("CPU", {"NUM_STREAMS": "2", "PERF_COUNT": "YES", "INFERENCE_PRECISION_HINT": "f32"})
    assert core.get_property("CPU", "NUM_STREAMS") == 2
    assert core.get_property("CPU", "PERF_COUNT") is True
    assert core.get_property("CPU", props.hint.inference_precision) == runtime.ov.Type.f32
    core.set_property("CPU", ("PERFORMANCE_HINT", "LATENCY"))
    assert core.get_property("CPU", "PERFORMANCE_HINT") == props.hint.PerformanceMode.LATENCY
    core.set_property(device_name="CPU", properties={"NUM_STREAMS": 1})
    core.set_property(device_name="CPU", property=props.hint.execution_mode(props.hint.ExecutionMode.ACCURACY))
    assert core.get_property(device_name="CPU", property="NUM_STREAMS") == 1
    assert core.get_property("CPU", "EXECUTION_MODE_HINT", {}) == props.hint.ExecutionMode.ACCURACY
    core.set_property("AUTO", {"PERFORMANCE_HINT": "LATENCY"})
    assert core.get_property("AUTO", "PERFORMANCE_HINT") == "LATENCY"


@pytest.mark.parametrize("device", ["CPU", "AUTO"])
def test_properties_are_listed_in_the_devices_order(runtime: Any, core: Any, device: str) -> None:
    """Programs print them as they come."""
    local = openvino.Core()
    supported = core.get_property(device, "SUPPORTED_PROPERTIES")
    assert list(supported.items()) == list(local.get_property(device, "SUPPORTED_PROPERTIES").items())
    mine, theirs = (each.compile_model(runtime.models["relu"], device) for each in (core, local))
    of_mine, of_theirs = (each.get_property("SUPPORTED_PROPERTIES") for each in (mine, theirs))
    assert list(of_mine.items()) == list(of_theirs.items())


def test_a_set_of_choices(runtime: Any, core: Any, models: Any) -> None:
    """How models are spread over the sockets of a machine is a set, and no list."""
    hint = runtime.ov.properties.hint
    chosen = {hint.ModelDistributionPolicy.TENSOR_PARALLEL}
    core.set_property("CPU", hint.model_distribution_policy(chosen))
    assert core.get_property("CPU", "MODEL_DISTRIBUTION_POLICY") == chosen
    compiled = core.compile_model(models["relu"], "CPU", {hint.model_distribution_policy: chosen})
    assert compiled.get_property("MODEL_DISTRIBUTION_POLICY") == chosen
    assert compiled(ONES)[0].tolist() == [[1, 1, 1]]
    for refused in (set[Any](), {1}, {"NONE"}, {hint.ModelDistributionPolicy.PIPELINE_PARALLEL}):
        with pytest.raises(RuntimeError, match="property key MODEL_DISTRIBUTION_POLICY"):
            core.set_property("CPU", {"MODEL_DISTRIBUTION_POLICY": refused})


def test_what_belongs_to_the_process_is_read_back_with_openvinos_types(runtime: Any, core: Any, tmp_path: Path) -> None:
    props = runtime.ov.properties
    core.set_property(props.cache_dir(str(tmp_path)))
    assert Path(core.get_property("CACHE_DIR"), "model") == tmp_path / "model"
    core.set_property("CPU", props.log.level(props.log.Level.ERR))
    assert core.get_property("CPU", "LOG_LEVEL") == props.log.Level.ERR


@pytest.mark.parametrize(("given", "value"), [(True, True), ("YES", True), ("NO", False)])
def test_whether_cpus_are_reserved_is_read_back(core: Any, given: object, value: bool) -> None:
    assert core.get_property("CPU", "ENABLE_CPU_RESERVATION") is False
    core.set_property("CPU", {"ENABLE_CPU_RESERVATION": given})
    assert core.get_property("CPU", "ENABLE_CPU_RESERVATION") is value


def test_no_program_reserves_the_cpus_of_all(server_address: str, models: Mapping[str, Path]) -> None:
    """Openvino does for the rest of its process, and compiles no further model in it."""
    core = inferwire.Core(server_address)
    reserving = {inferwire.properties.hint.enable_cpu_reservation: True}
    with pytest.warns(RuntimeWarning, match="ENABLE_CPU_RESERVATION is a property of the server's process"):
        compiled = core.compile_model(models["relu"], "CPU", reserving)
    assert compiled.get_property("ENABLE_CPU_RESERVATION") is False
    assert core.compile_model(models["relu"], "CPU")(ONES)[0].tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("level", ["NONE", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE"])
def test_a_level_of_the_log_as_text(runtime: Any, core: Any, level: str) -> None:
    core.set_property("CPU", {"LOG_LEVEL": f"LOG_{level}"})
    expected = {"NONE": "NO", "ERROR": "ERR"}.get(level, level)
    assert core.get_property("CPU", "LOG_LEVEL") == runtime.ov.properties.log.Level.__members__[expected]
    core.set_property({"LOG_LEVEL": "LOG_WARNING"})
    assert core.get_property("CPU", "LOG_LEVEL") == runtime.ov.properties.log.Level.WARNING
    core.set_property({"FORCE_TBB_TERMINATE": "NO"})
    assert core.get_property("FORCE_TBB_TERMINATE") is False


@pytest.mark.parametrize("level", ["INFO", "LOG_NO", 3])
def test_no_level_of_the_log(core: Any, level: Any) -> None:
    with pytest.raises(RuntimeError, match=f"Wrong value {level} for property key LOG_LEVEL. Expected only ov::log::"):
        core.set_property("CPU", {"LOG_LEVEL": level})


def test_what_was_set_for_all_devices(runtime: Any, core: Any) -> None:
    mode = runtime.ov.properties.hint.PerformanceMode
    core.set_property({"PERFORMANCE_HINT": "THROUGHPUT", "PERF_COUNT": "YES"})
    assert core.get_property("CPU", "PERFORMANCE_HINT") == mode.THROUGHPUT
    assert core.get_property("CPU", "PERF_COUNT") is True
    core.set_property("CPU", {"PERFORMANCE_HINT": "LATENCY"})
    assert core.get_property("CPU", "PERFORMANCE_HINT") == mode.LATENCY
    core.set_property({"PERFORMANCE_HINT": "THROUGHPUT"})
    assert core.get_property("CPU", "PERFORMANCE_HINT") == mode.THROUGHPUT
    assert core.compile_model(runtime.models["relu"], "CPU").get_property("PERFORMANCE_HINT") == "THROUGHPUT"
    for name in ("PERFORMANCE_HINT", "PERF_COUNT", "NOPE", "LOG_LEVEL"):
        with pytest.raises(RuntimeError, match=f"call get_property with unsupported property: '{name}'"):
            core.get_property(name)


def test_what_was_set_for_all_devices_and_is_nothing(runtime: Any) -> None:
    core = runtime.new_core()
    core.set_property({"NOPE": "BAD"})
    with pytest.raises(RuntimeError, match="unsupported property: 'NOPE'"):
        core.get_property("NOPE")
    with pytest.raises(RuntimeError, match="Unsupported property NOPE by CPU plugin"):
        core.get_property("CPU", "NOPE")


def test_numbers_of_numpy(core: Any) -> None:
    core.set_property("CPU", {"NUM_STREAMS": np.int64(2)})
    core.set_property("CPU", {"CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE": np.float32(0.5)})
    assert core.get_property("CPU", "CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE") == 0.5


def test_what_was_set_for_all_of_a_kind_is_each_ones(core: Any) -> None:
    core.set_property("CPU", {"NUM_STREAMS": 2})
    assert core.get_property("CPU.0", "NUM_STREAMS") == core.get_property("CPU", "NUM_STREAMS") == 2


def test_the_dynamic_type_is_a_type(runtime: Any, core: Any) -> None:
    hint, dynamic = runtime.ov.properties.hint, runtime.ov.Type.dynamic
    compiled = core.compile_model(
        runtime.models["relu"], "CPU", {hint.execution_mode: hint.ExecutionMode.ACCURACY, "PERFORMANCE_HINT": "LATENCY"}
    )
    precision = compiled.get_property(hint.inference_precision)
    assert (precision, repr(precision)) == (dynamic, "<Type: 'dynamic'>")
    core.set_property("CPU", {hint.inference_precision: dynamic})
    assert core.get_property("CPU", hint.inference_precision) == dynamic


def test_properties_of_the_runtime(core: Any) -> None:
    core.set_property({})
    core.set_property(properties={"ENABLE_MMAP": False})
    assert core.get_property("ENABLE_MMAP") is core.get_property(property="ENABLE_MMAP") is False


def test_they_go_with_what_is_compiled(runtime: Any, core: Any) -> None:
    core.set_property("CPU", {"NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"})
    compiled = core.compile_model(runtime.models["relu"], "CPU")
    assert compiled.get_property("NUM_STREAMS") == 1
    assert compiled.get_property("INFERENCE_PRECISION_HINT") == runtime.ov.Type.f32
    own = core.compile_model(runtime.models["relu"], "CPU", {"NUM_STREAMS": 2})
    assert own.get_property("NUM_STREAMS") == 2


@pytest.mark.parametrize("device", ["AUTO", "AUTO:CPU", "HETERO:CPU", "MULTI:CPU"])
def test_they_reach_the_devices_behind_another(runtime: Any, core: Any, device: str) -> None:
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1})
    compiled = core.compile_model(runtime.models["relu"], device)
    inner = compiled.get_property("DEVICE_PROPERTIES")["CPU"]
    assert inner["INFERENCE_PRECISION_HINT"] == runtime.ov.Type.f32
    assert inner["NUM_STREAMS"] == 1
    assert compiled(ONES)[0].tolist() == ONES.tolist()


@pytest.mark.parametrize("as_pair", [False, True], ids=["by name", "as a pair"])
def test_they_reach_the_devices_behind_another_beside_those_of_the_call(
    runtime: Any, core: Any, *, as_pair: bool
) -> None:
    core.set_property("CPU", {"NUM_STREAMS": 1})
    of_devices = {"CPU": {"PERF_COUNT": True}}
    pair = runtime.ov.properties.device.properties(of_devices) if as_pair else ("DEVICE_PROPERTIES", of_devices)
    inner = core.compile_model(runtime.models["relu"], "AUTO", dict([pair])).get_property("DEVICE_PROPERTIES")["CPU"]
    assert (inner["NUM_STREAMS"], inner["PERF_COUNT"]) == (1, "YES")


REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "unknown on a device": (("CPU", {"NOPE": 1}), "Unsupported property NOPE by CPU plugin"),
    "on an unknown device": (("XPU", {"NUM_STREAMS": 1}), 'Device with "XPU" name is not registered'),
    "no number": (("CPU", {"NUM_STREAMS": "x"}), "Could not read number of streams from str: x"),
    "no such choice": (("CPU", {"PERFORMANCE_HINT": "NOPE"}), "Wrong value NOPE"),
    "only to be read": (("CPU", {"FULL_DEVICE_NAME": "x"}), "Unsupported property FULL_DEVICE_NAME by CPU plugin"),
    "on a device of devices": (("AUTO:CPU", {"PERF_COUNT": True}), "set_property is supported only for AUTO itself"),
    "of devices": (("AUTO", {"DEVICE_PROPERTIES": {"CPU": {}}}), "set_property do not support"),
}


@pytest.mark.parametrize(("args", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_at_once(core: Any, args: tuple[Any, ...], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        core.set_property(*args)


@pytest.mark.parametrize(
    "args", [(), (3,), ("CPU", 3), ("CPU", ("a", 1, 2)), ("CPU", {0: 1}), ({0: 1},), (3, {}), ("CPU", {}, {})], ids=str
)
def test_what_is_no_property(core: Any, args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"set_property\(\): incompatible function arguments"):
        core.set_property(*args)


@pytest.mark.parametrize("args", [(3,), ("CPU", 3), ("CPU", "a", "b")], ids=str)
def test_what_is_no_name(core: Any, args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"get_property\(\): incompatible function arguments"):
        core.get_property(*args)


def test_a_property_without_a_python_type_is_a_type_error(core: Any) -> None:
    """As openvino's sample hello_query_device expects it."""
    unreadable: dict[str, str] = {}
    for name in core.get_property("CPU", "SUPPORTED_PROPERTIES"):
        try:
            core.get_property("CPU", name)
        except TypeError as error:
            unreadable[name] = str(error)
    assert unreadable.keys() == {"COMPATIBILITY_CHECK"}
    assert "Unable to convert function return value to a Python type!" in unreadable["COMPATIBILITY_CHECK"]


@pytest.mark.parametrize("device", ["CPU", "AUTO"])
@pytest.mark.parametrize("function", ["compile_model", "query_model", "import_model"])
def test_a_property_whose_name_is_none(runtime: Any, core: Any, function: str, device: str) -> None:
    with pytest.raises(TypeError, match=rf"{function}\(\): incompatible function arguments"):
        getattr(core, function)(core.read_model(runtime.models["relu"]), device, {0: 1})


@pytest.mark.parametrize("function", ["compile_model", "query_model"])
def test_a_device_without_a_name(runtime: Any, core: Any, function: str) -> None:
    with pytest.raises(RuntimeError, match='Device with "" name is not registered in the OpenVINO Runtime'):
        getattr(core, function)(core.read_model(runtime.models["relu"]), "")
