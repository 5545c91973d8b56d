"""Devices and properties, as the real runtime has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from tests.openvino_backend.small_models import compiled, f32, identity

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_proto.properties import EnumValue, PropertyValue
from inferwire_server.core.model_options import ModelOptions
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend


@pytest.mark.parametrize("device", ["CPU", "AUTO", "AUTO:CPU", "HETERO:CPU", "MULTI:CPU", "BATCH:CPU(4)"])
def test_every_device_string_queues_on_the_cpu(backend: OpenVinoBackend, tmp_path: Path, device: str) -> None:
    model = compiled(backend, identity(tmp_path, BY_NAME["f32"], (4, 2)), device)
    assert model.devices == ("CPU",)
    assert model.optimal_slots >= 1
    sent = f32(np.arange(8).reshape(4, 2))
    assert model.create_slot().run([sent], [0]) == (sent,)


def test_a_device_nobody_has_fails_with_a_reason(backend: OpenVinoBackend, tmp_path: Path) -> None:
    with pytest.raises(ServingError, match="TPU") as caught:
        compiled(backend, identity(tmp_path, BY_NAME["f32"]), "TPU")
    assert caught.value.code is Code.MODEL_FAILED


def test_properties_keep_their_types(backend: OpenVinoBackend, tmp_path: Path) -> None:
    properties = compiled(backend, identity(tmp_path, BY_NAME["f32"])).properties
    assert properties["PERFORMANCE_HINT"] == "THROUGHPUT"
    assert properties["EXECUTION_MODE_HINT"] == EnumValue("hint.ExecutionMode", "PERFORMANCE")
    assert properties["INFERENCE_PRECISION_HINT"] is BY_NAME["f32"]
    assert properties["EXECUTION_DEVICES"] == ["CPU"]
    assert isinstance(properties["OPTIMAL_NUMBER_OF_INFER_REQUESTS"], int)
    assert isinstance(properties["ENABLE_CPU_PINNING"], bool)


@pytest.mark.parametrize(
    ("properties", "hint"),
    [({}, "THROUGHPUT"), ({"PERFORMANCE_HINT": EnumValue("hint.PerformanceMode", "LATENCY")}, "LATENCY")],
)
def test_models_compile_for_throughput_unless_told_otherwise(
    backend: OpenVinoBackend, tmp_path: Path, properties: dict[str, Any], hint: str
) -> None:
    model = backend.compile(identity(tmp_path, BY_NAME["f32"]), ModelOptions("m", "CPU", properties))
    assert model.properties["PERFORMANCE_HINT"] == hint


def test_the_cpu_computes_with_as_many_threads_as_it_is_told_unless_a_model_says_otherwise(tmp_path: Path) -> None:
    backend, source = OpenVinoBackend(threads=1), identity(tmp_path, BY_NAME["f32"], (4, 2))
    told = compiled(backend, source).properties
    assert (told["INFERENCE_NUM_THREADS"], told["ENABLE_CPU_PINNING"]) == (1, False)
    options = ModelOptions("m", "CPU", {"INFERENCE_NUM_THREADS": 2, "ENABLE_CPU_PINNING": True})
    own = backend.compile(source, options).properties
    assert (own["INFERENCE_NUM_THREADS"], own["ENABLE_CPU_PINNING"]) == (2, True)
    of_auto = compiled(backend, source, "AUTO").optimal_slots
    assert of_auto == compiled(backend, source).optimal_slots


def test_a_device_tells_its_properties_and_versions(backend: OpenVinoBackend) -> None:
    assert "CPU" in backend.devices()
    assert isinstance(backend.device_property("CPU", "FULL_DEVICE_NAME"), str)
    streams = backend.device_property("CPU", "RANGE_FOR_STREAMS")
    assert isinstance(streams, tuple)
    assert backend.version == ov.get_version()
    assert list(backend.versions("CPU")) == ["CPU"]
    with pytest.raises(ServingError, match="NO_SUCH") as caught:
        backend.device_property("CPU", "NO_SUCH")
    assert caught.value.code is Code.INVALID_INPUT


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([[1], 2], "property NUM_STREAMS has lists and numbers in it"),
        ([1, "a"], "property NUM_STREAMS has numbers and texts in it"),
        ((1.5, 2), "property NUM_STREAMS has fractions and numbers in it"),
        ([None], "property NUM_STREAMS has empty values in it"),
        ([{"a": 1}], "property NUM_STREAMS has lists in it"),
        ({"CPU": {"X": ["a", ["b"]]}}, "property NUM_STREAMS.CPU.X has lists and texts in it"),
    ],
)
def test_a_list_that_openvino_has_no_type_for_is_refused_by_its_property(
    backend: OpenVinoBackend, value: PropertyValue, sentence: str
) -> None:
    for device in ("", "CPU"):
        with pytest.raises(ServingError) as caught:
            backend.check_properties(device, {"NUM_STREAMS": value})
        assert caught.value.code is Code.INVALID_INPUT
        assert (
            str(caught.value) == f"the list of {sentence}, expected texts alone, whole numbers alone or fractions alone"
        )


@pytest.mark.parametrize("value", [[], [1, 2], ["a", "b"], (1.5, 2.5), {1, 2}, [True, 1], ["a", BY_NAME["f32"]]])
def test_other_lists_are_left_to_openvino(backend: OpenVinoBackend, value: PropertyValue) -> None:
    assert list(backend.check_properties("", {"SOMETHING": value})) == ["SOMETHING"]
