"""A caller's states stay what they are, whoever's inference fails and whatever graph takes the place of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset6
from openvino import opset13 as op
from openvino.op.util import Variable, VariableInfo

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.states import ReadStates, WriteStates
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import Slot
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend import bound_slots
from inferwire_server.openvino_backend.backend import OpenVinoBackend, OpenVinoModel

GOOD, BAD = 8, 7
F32 = BY_NAME["f32"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model that adds up how many rows of four it was given, and takes nothing that is no such rows."""
    info = VariableInfo()
    info.data_shape, info.data_type, info.variable_id = ov.PartialShape([1]), ov.Type.f32, "rows"
    variable = Variable(info)
    data = op.parameter([ov.Dimension(4, 1000)], np.float32, name="data")
    rows = op.reshape(op.relu(data), op.constant(np.array([-1, 4], np.int64)), special_zero=False)
    count = op.reduce_sum(rows, op.constant(np.array([0, 1], np.int64)), keep_dims=False)
    before = opset6.read_value(op.constant(np.zeros(1, np.float32)), variable)
    total = op.add(before, op.divide(count, op.constant(np.float32(4))))
    make: Any = ov.Model
    model = make([op.result(total)], [opset6.assign(total, variable)], [data], "rows")
    ov.save_model(model, tmp_path / "rows.xml")
    return tmp_path / "rows.xml"


@pytest.fixture(params=["CPU", "AUTO"])
def model(path: Path, request: pytest.FixtureRequest) -> OpenVinoModel:
    options = ModelOptions("rows", request.param, {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"})
    return OpenVinoBackend().compile(Source(path), options)


def bound(model: OpenVinoModel) -> Slot:
    return model.create_slot(keeps_states=True)


def given(length: int) -> list[Tensor]:
    return [Tensor(F32, (length,), np.ones(length, np.float32).tobytes())]


def total(tensor: Tensor) -> float:
    return float(np.frombuffer(tensor.data, np.float32)[0])


def infer(slot: Slot, length: int = GOOD) -> float:
    """Infer, and give how many rows there have been."""
    (found,) = slot.run(given(length), [0])
    return total(found)


def state(slot: Slot) -> float:
    (found,) = slot.access(ReadStates(()))
    return total(found)


def fail(slot: Slot) -> None:
    with pytest.raises(ServingError, match=rf"\({BAD}\)"):
        infer(slot, BAD)


def test_a_failure_touches_nobodys_states_and_no_inference_after_it(model: OpenVinoModel) -> None:
    good, bad, alone = bound(model), bound(model), model.create_slot()
    assert [infer(good), infer(good), infer(bad), infer(alone)] == [2, 4, 2, 2]
    for counted in (2, 4):
        fail(bad)
        assert state(bad) == counted
        assert infer(bad) == counted + 2
        assert infer(good) == counted + 4
        assert infer(alone) == 2


def test_a_failure_where_nobody_keeps_states_touches_no_inference_of_those_who_do(model: OpenVinoModel) -> None:
    good, alone = bound(model), model.create_slot()
    assert [infer(good), infer(alone)] == [2, 2]
    fail(alone)
    assert [infer(good), infer(alone), infer(good, GOOD + 4)] == [4, 2, 7]


def test_what_ran_beside_one_that_failed_runs_again_on_the_states_from_before(model: OpenVinoModel) -> None:
    good, bad = bound(model), bound(model)
    assert infer(good) == 2
    totals: list[float] = []

    def transform(found: Tensor) -> Tensor:
        totals.append(total(found))
        if len(totals) == 1:
            fail(bad)
        return found.on_its_own()

    good.run(given(GOOD), [0], (transform,))
    assert totals == [4, 4]
    assert infer(good) == 6


def test_states_too_large_to_be_copied_each_time_are_said_not_to_be_trusted(
    model: OpenVinoModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound_slots, "MAX_COPIED_STATE_BYTES", 0)
    good, bad = bound(model), bound(model)
    assert [infer(good), infer(good)] == [2, 4]

    def transform(found: Tensor) -> Tensor:
        fail(bad)
        return found

    with pytest.raises(
        ServingError, match=r"neither the outputs nor the states .* reset or write the states"
    ) as caught:
        good.run(given(GOOD), [0], (transform,))
    assert caught.value.code is Code.INFERENCE_FAILED
    good.access(WriteStates((("rows", Tensor(F32, (1,), np.float32(2).tobytes())),)))
    assert infer(good) == 4
    fail(good)
    assert infer(good) == 6


def test_states_too_large_to_be_copied_are_not_all_copied_to_find_that_out() -> None:
    read: list[str] = []

    class Large:
        """A state that OpenVINO copies whenever it is read."""

        def __init__(self, name: str) -> None:
            self.name = name

        @property
        def state(self) -> ov.Tensor:
            read.append(self.name)
            return ov.Tensor(np.zeros(6, np.float32))

    variables: Any = [Large(f"keys {layer}") for layer in range(4)]
    assert bound_slots.copied_up_to(40, variables) is None
    assert read == ["keys 0", "keys 1"]
    small = bound_slots.copied_up_to(48, variables[:2])
    assert small is not None
    assert list(small) == ["keys 0", "keys 1"]


def test_whoever_is_idle_moves_to_the_new_graph_at_once_and_keeps_no_other_in_memory(model: OpenVinoModel) -> None:
    idle, bad = bound(model), bound(model)
    assert infer(idle) == 2
    first = model._graphs.current  # pyright: ignore[reportPrivateUsage] - nothing else shows what is kept in memory
    fail(bad)
    assert isinstance(idle, bound_slots.OpenVinoBoundSlot)
    graph = idle._graph  # pyright: ignore[reportPrivateUsage]
    assert graph is not first
    assert graph is model._graphs.current  # pyright: ignore[reportPrivateUsage]
    assert state(idle) == 2
    assert infer(idle) == 4


def test_many_who_keep_states_count_right_beside_one_that_fails(model: OpenVinoModel) -> None:
    good, bad = [bound(model) for _ in range(3)], bound(model)

    def count(slot: Slot) -> list[float]:
        return [infer(slot, GOOD) for _ in range(30)]

    def fail_often() -> None:
        for _ in range(10):
            fail(bad)

    with ThreadPoolExecutor(4) as threads:
        counting = [threads.submit(count, slot) for slot in good]
        failing = threads.submit(fail_often)
        failing.result()
        for each in counting:
            assert each.result() == [2.0 * number for number in range(1, 31)]
