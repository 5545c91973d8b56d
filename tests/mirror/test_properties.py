"""Properties, their values and OVAny, against openvino's own."""

from __future__ import annotations

import copy
from importlib import import_module
from math import inf
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.mirror.conftest import PROPERTY_MODULES

import inferwire
from inferwire.properties.declaration import Property
from inferwire.values.enumerations import OrderedChoice

SAMPLES = [
    True,
    None,
    3,
    -3,
    2**31,
    2**32,
    2**63,
    2**64,
    0.5,
    "x",
    [],
    {},
    {"CPU": 1},
    {"CPU": {1: 0.5}},
    set(),
    object(),
]

# openvino parses the curve's text, where a server does it for inferwire; and takes None for a model.
DIFFERENT: list[tuple[str, object]] = [("perf_curve_table", "x"), ("model", None)]

MIRRORED = {name: import_module(f"inferwire.{name}") for name in PROPERTY_MODULES}
DECLARED = [
    (module, name)
    for module, loaded in MIRRORED.items()
    for name, value in vars(loaded).items()
    if isinstance(value, Property)
]
ENUMERATIONS = [
    (module, name)
    for module, loaded in MIRRORED.items()
    for name, value in vars(loaded).items()
    if isinstance(value, type) and issubclass(value, OrderedChoice) and value.__module__ == loaded.__name__
]


def module_of(ov: Any, name: str) -> ModuleType:
    return import_module(f"{ov.__name__}.{name}")


@pytest.mark.parametrize(("module", "name"), DECLARED, ids=str)
def test_property_key(ov: Any, module: str, name: str) -> None:
    declared = getattr(module_of(ov, module), name)
    assert issubclass(type(declared), str)
    assert declared == declared() == getattr(MIRRORED[module], name)
    assert {declared: 1}[str(declared)] == 1


def _outcome(declared: Any, sample: object) -> object:
    try:
        key, value = declared(sample)
    except (TypeError, RuntimeError) as error:
        return type(error)
    return key, value.value


@pytest.mark.parametrize(("module", "name"), DECLARED, ids=str)
def test_property_takes_what_openvino_takes(module: str, name: str) -> None:
    theirs, ours = (getattr(import_module(f"{root}.{module}"), name) for root in ("openvino", "inferwire"))
    for sample in SAMPLES:
        if (name, sample) in DIFFERENT:
            continue
        assert _outcome(ours, sample) == _outcome(theirs, sample), sample


def test_every_property_is_declared() -> None:
    for module in PROPERTY_MODULES:
        native = import_module(f"openvino._pyopenvino.{module}")
        functions = {
            name for name, value in vars(native).items() if type(value).__name__ == "builtin_function_or_method"
        }
        declared = {name for place, name in DECLARED if place == module}
        assert functions - declared <= {"cache_encryption_callbacks"}
        assert declared <= functions


@pytest.mark.parametrize(("module", "name"), ENUMERATIONS, ids=str)
def test_enumeration(ov: Any, module: str, name: str) -> None:
    theirs = getattr(module_of(ov, module), name)
    expected = getattr(MIRRORED[module], name).__members__
    assert {
        key: (repr(each), str(each), each.name, each.value, int(each)) for key, each in theirs.__members__.items()
    } == {
        key: (f"<{name}.{each.name}: {each.value}>", f"{name}.{each.name}", each.name, each.value, each.value)
        for key, each in expected.items()
    }


def test_enumeration_members(ov: Any) -> None:
    mode = ov.properties.hint.PerformanceMode
    assert mode(1) == mode.LATENCY
    assert mode.LATENCY != 1
    assert mode.LATENCY < mode.THROUGHPUT
    assert mode.LATENCY <= mode.LATENCY
    assert copy.deepcopy(mode.LATENCY) == mode.LATENCY
    assert {mode.LATENCY: 1}[mode.LATENCY] == 1
    with pytest.raises(TypeError):
        assert mode.LATENCY < 3


def test_values_of_properties(ov: Any) -> None:
    properties = ov.properties
    hint = properties.hint
    pairs = [
        (hint.performance_mode(hint.PerformanceMode.LATENCY), ("PERFORMANCE_HINT", hint.PerformanceMode.LATENCY)),
        (hint.inference_precision(ov.Type.f32), ("INFERENCE_PRECISION_HINT", ov.Type.f32)),
        (
            hint.model_distribution_policy({hint.ModelDistributionPolicy.TENSOR_PARALLEL}),
            ("MODEL_DISTRIBUTION_POLICY", {hint.ModelDistributionPolicy.TENSOR_PARALLEL}),
        ),
        (properties.streams.num(properties.streams.Num.AUTO), ("NUM_STREAMS", -1)),
        (properties.num_streams(properties.streams.Num(3)), ("NUM_STREAMS", 3)),
        (properties.device.priorities("CPU", "GPU"), ("MULTI_DEVICE_PRIORITIES", "CPU,GPU,")),
        (properties.device.properties({"CPU": {"A": 1}}), ("DEVICE_PROPERTIES", {"CPU": {"A": 1}})),
        (
            properties.cache_mode(properties.CacheMode.OPTIMIZE_SPEED),
            ("CACHE_MODE", properties.CacheMode.OPTIMIZE_SPEED),
        ),
    ]
    for (key, value), expected in pairs:
        assert (key, value.value) == expected
        assert isinstance(value, ov.OVAny)
    with pytest.raises(TypeError, match=r"Incorrect passed value: \['CPU'\] , expected string values."):
        properties.device.priorities(["CPU"])
    with pytest.raises(TypeError, match="Incorrect passed value: CPU, expected dictionary"):
        properties.device.properties("CPU")
    with pytest.raises(TypeError, match=r"\(\): incompatible function arguments"):
        properties.cache_dir("x", "y")
    assert (properties.device.Capability.FP32, properties.intel_gpu.MemoryType.surface) == ("FP32", "GPU_SURFACE")
    assert properties.streams.Num.NUMA.to_integer() == -2
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        properties.streams.Num("x")
    with pytest.raises(AttributeError):
        _ = properties.nope


def test_ov_any(ov: Any) -> None:
    any_of = ov.OVAny
    assert repr(any_of(3)) == "<OVAny class>"
    assert any_of(3) == 3
    assert any_of(3) == any_of(3)
    assert any_of("a") != "b"
    assert (any_of(3).value, any_of(3).get(), hash(any_of(3)), any_of(any_of(3)).value) == (3, 3, 3, 3)
    assert (len(any_of([1, 2])), any_of([1, 2])[0], any_of({"a": 1})["a"]) == (2, 1, 1)
    assert (any_of("3").astype(int), any_of("1.5").astype(float), any_of("true").astype(bool)) == (3, 1.5, True)
    assert (any_of(3).astype(str), any_of({"a": 1}).astype(dict)) == ("3", {"a": any_of(1)})
    assert (any_of("1 2").aslist(int), any_of("1 2").aslist(), any_of([1, 2]).aslist(int)) == ([1, 2], [], [1, 2])
    changed = any_of([1, 2])
    changed.set("x")
    assert changed.value == "x"
    with pytest.raises(TypeError):
        hash(any_of([1]))
    with pytest.raises(RuntimeError, match=r"Mixed types in the container are not allowed."):
        any_of([1, "a"])
    with pytest.raises(RuntimeError, match=r"Only ov::AnyMap or ov::Meta are expected here."):
        any_of(3).astype(dict)
    with pytest.raises(RuntimeError, match="Could not convert to bool from string maybe"):
        any_of("maybe").astype(bool)
    with pytest.raises(RuntimeError):
        any_of("x").astype(int)


READ_FROM_TEXT: dict[type, dict[str, object]] = {
    bool: {"1": True, "0": False, "YES": True, "no": False, "On": True, "oFF": False, " true so": True, "": False},
    int: {"12": 12, "1.5": 1, " -3 4": -3, "+7a": 7, "1e3": 1, "1_0": 1, "": 0},
    float: {"1.5": 1.5, "2,5": 2.0, " .5e1x": 5.0, "-INF": -inf, "0x1p3": 8.0, "1_0": 1.0, "": 0.0},
}
NOT_READ_FROM_TEXT = {
    bool: ("2", "00", "t", " "),
    int: ("x", "--4", ".5", "9223372036854775808", "9" * 5000, " "),
    float: ("x", "e5", "-", "1e400", "0x1p99999", " "),
}
WRITTEN: dict[str, object] = {
    "YES": True,
    "NO": False,
    "0.333333": 1 / 3,
    "1e+06": 1e6,
    "2": 2.0,
    "a b c": ["a", "b c"],
    "1.5 2": [1.5, 2.0],
    "1 0": [True, False],
    "": [],
    "{a:1 2,b:{c:YES}}": {"b": {"c": True}, "a": [1, 2]},
}


def test_ov_any_is_read_from_text_as_numbers_and_words(ov: Any) -> None:
    for dtype, texts in READ_FROM_TEXT.items():
        assert {text: ov.OVAny(text).astype(dtype) for text in texts} == texts
    for dtype, refused in NOT_READ_FROM_TEXT.items():
        for text in refused:
            with pytest.raises(RuntimeError, match="Could not convert to"):
                ov.OVAny(text).astype(dtype)
    assert (ov.OVAny("no 1 ON").aslist(bool), ov.OVAny("1.5 2").aslist(int)) == ([False, True, True], [1, 2])
    assert (ov.OVAny(["1"]).aslist(int), ov.OVAny([1.5]).aslist(int)) == (["1"], [1.5])


def test_ov_any_is_written_as_text(ov: Any) -> None:
    assert {text: ov.OVAny(value).astype(str) for text, value in WRITTEN.items()} == {text: text for text in WRITTEN}
    assert ov.OVAny(ov.Type.f32).astype(str) == "f32"
    assert ov.OVAny(ov.properties.hint.PerformanceMode.LATENCY).astype(str) == "LATENCY"


class Name(str):
    """What a program may have instead of a string."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (np.float64(2.5), 2.5),
        (Name("a"), "a"),
        ([np.float64(2.5), 1.0], [2.5, 1.0]),
        (["a", np.str_("b"), Name("c")], ["a", "b", "c"]),
    ],
    ids=repr,
)
def test_ov_any_holds_pythons_own_values(ov: Any, given: Any, value: Any) -> None:
    held = ov.OVAny(given).value
    assert held == value
    assert type(held) is type(value)
    if isinstance(value, list):
        assert {type(item) for item in held} == {type(item) for item in value}


@pytest.mark.parametrize(
    ("given", "message"),
    [([1, "a"], r"Mixed types in the container are not allowed\."), ([None], r"Unsupported attribute type\.")],
)
def test_ov_any_is_set_to_what_it_is_made_of(ov: Any, given: list[Any], message: str) -> None:
    held = ov.OVAny(3)
    held.set([np.float64(2.5)])
    assert held.value == [2.5]
    for put in (ov.OVAny, held.set):
        with pytest.raises(RuntimeError, match=message):
            put(given)
    assert held.value == [2.5]


def test_ov_any_of_a_dict_holds_a_copy_with_pythons_own_values(ov: Any) -> None:
    given: dict[str, Any] = {"z": np.float32(2), "a": {"y": b"text", "b": ov.OVAny(3)}}
    held = ov.OVAny(given)
    given["z"], given["a"]["y"] = 5, "other"
    assert repr(held.value) == "{'a': {'b': 3, 'y': 'text'}, 'z': 2.0}"
    with pytest.raises(RuntimeError, match=r"Mixed types in the container are not allowed\."):
        ov.OVAny({"a": {"b": [1, "x"]}})


def test_ov_any_of_maps_in_maps_is_dicts_to_the_last(ov: Any) -> None:
    read = ov.OVAny({"a": {"b": {"c": 1}, "d": [1, 2]}, "e": "x"}).astype(dict)
    assert read == {"a": {"b": {"c": ov.OVAny(1)}, "d": ov.OVAny([1, 2])}, "e": ov.OVAny("x")}
    assert (read["a"]["b"]["c"].value, read["a"]["d"].value, type(read["a"]["b"])) == (1, [1, 2], dict)


def test_ov_any_of_what_is_true_is_no_number(ov: Any) -> None:
    for value, dtype in ((True, int), (False, float), (1, bool), (0.0, bool), ([1], bool), ([], int), ({}, float)):
        with pytest.raises(RuntimeError, match="Bad"):
            ov.OVAny(value).astype(dtype)
    for value in (3, {"a": 1}, True):
        with pytest.raises(RuntimeError, match="Bad"):
            ov.OVAny(value).aslist(str)
    for convert in (ov.OVAny([1]).astype, ov.OVAny("1").aslist):
        with pytest.raises(RuntimeError, match="Unsupported data type : '<class 'list'>'"):
            convert(list)


OWN = ("ModelStatus", "OVDict", "RuntimeModel", "Scheduling", "Timeouts", "Timings", "VariableState")
"""What is exported beside openvino's names and the errors."""


def test_top_level_names() -> None:
    for name in inferwire.__all__:
        exported = getattr(inferwire, name)
        is_error = isinstance(exported, type) and issubclass(exported, inferwire.InferwireError)
        is_own = name in OWN or is_error
        assert is_own != hasattr(import_module("openvino"), name), name
