"""The fake runtime does what the tests that lean on it believe."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.waiting import LIMIT_S

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import Backend
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, Gate, echo_spec
from inferwire_server.errors import ServingError

ROW = Tensor(BY_NAME["f32"], (1, 4), bytes(16))


def test_an_open_gate_lets_an_inference_through_and_gives_the_outputs_asked_for() -> None:
    slot = FakeModel(echo_spec("m"), compute=lambda inputs: (*inputs, ROW)).create_slot()
    assert slot.run([ROW], [1, 0, 0]) == (ROW, ROW, ROW)


def test_a_closed_gate_holds_inferences_until_it_opens() -> None:
    model = FakeModel(echo_spec("m"), gate=Gate(is_open=False))
    with ThreadPoolExecutor() as threads:
        running = [threads.submit(model.create_slot().run, [ROW], [0]) for _ in range(2)]
        model.gate.wait_held(2)
        assert not any(future.done() for future in running)
        model.gate.open()
        assert [future.result(LIMIT_S) for future in running] == [(ROW,), (ROW,)]
    model.gate.wait_held(0)


def test_a_held_inference_is_cancelled_and_its_slot_runs_again() -> None:
    model = FakeModel(echo_spec("m"), gate=Gate(is_open=False))
    slot = model.create_slot()
    with ThreadPoolExecutor() as threads:
        running = threads.submit(slot.run, [ROW], [0])
        model.gate.wait_held(1)
        slot.cancel()
        with pytest.raises(ServingError) as caught:
            running.result(LIMIT_S)
        assert caught.value.code is Code.CANCELLED
    model.gate.open()
    assert slot.run([ROW], [0]) == (ROW,)


def test_a_model_that_cannot_cancel_runs_on() -> None:
    model = FakeModel(echo_spec("m"), gate=Gate(is_open=False), can_cancel=False)
    slot = model.create_slot()
    with ThreadPoolExecutor() as threads:
        running = threads.submit(slot.run, [ROW], [0])
        model.gate.wait_held(1)
        slot.cancel()
        model.gate.open()
        assert running.result(LIMIT_S) == (ROW,)


def test_a_cancel_on_an_idle_slot_does_not_stick() -> None:
    slot = FakeModel(echo_spec("m")).create_slot()
    slot.cancel()
    assert slot.run([ROW], [0]) == (ROW,)


def test_waiting_for_inferences_that_do_not_come_fails() -> None:
    with pytest.raises(TimeoutError, match="0 inferences are held, expected 1"):
        Gate().wait_held(1, timeout_s=0.0)


def test_models_are_found_by_their_name_or_their_files() -> None:
    model = FakeModel(echo_spec("m"))
    backend: Backend = FakeBackend({"m": model})
    assert backend.compile(Source(Path("anything.xml")), ModelOptions("m")) is model
    assert backend.compile(Source(Path("folder/m.xml")), ModelOptions("")) is model
    assert backend.read(Source(Path("m.onnx"))) is model.spec


def test_a_model_nobody_gave_it_fails_to_load() -> None:
    with pytest.raises(ServingError, match="the fake runtime has no model 'm'") as caught:
        FakeBackend().compile(Source(Path("m.xml")), ModelOptions(""))
    assert caught.value.code is Code.MODEL_FAILED


def test_its_devices_have_versions_and_properties() -> None:
    backend = FakeBackend(devices=("CPU", "GPU.0"))
    assert backend.devices() == ("CPU", "GPU.0")
    assert backend.device_property("CPU", "SIZE") == "SIZE of CPU"
    assert list(backend.versions("GPU.0")) == ["GPU.0"]
    assert backend.versions("NPU") == {}
