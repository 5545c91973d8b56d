"""Whoever sends again what has just failed disturbs nobody, and waits no longer than needs be."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.specs import ModelSpec
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend
from inferwire_server.openvino_backend.bound_slots import OpenVinoBoundSlot
from inferwire_server.openvino_backend.failures import LATELY_S, Failures
from inferwire_server.openvino_backend.graphs import Graphs
from inferwire_server.openvino_backend.slots import OpenVinoSlot

GOOD, BAD = 8, 7


class Made:
    """Graphs of a model of whatever length, which then wants rows of four; and those that were made anew."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        self._properties = {"NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": threads}
        data = op.parameter([ov.Dimension(4, 1000)], np.float32, name="data")
        rows = op.reshape(op.relu(data), op.constant(np.array([-1, 4], np.int64)), special_zero=False)
        make: Any = ov.Model
        ov.save_model(make([op.result(rows)], [data], "rows"), folder / "rows.xml")
        self.path = folder / "rows.xml"
        self.core = ov.Core()
        self.renewed: list[ov.CompiledModel] = []
        self.can_be_renewed = True
        self.may_renew = Event()
        self.may_renew.set()
        self.graphs = Graphs(self._compile(), self._renew)

    @property
    def spec(self) -> ModelSpec:
        return OpenVinoBackend().compile(Source(self.path), ModelOptions("rows", "CPU")).spec

    def slot(self) -> OpenVinoSlot:
        return OpenVinoSlot(self.graphs, self.spec)

    def _compile(self) -> ov.CompiledModel:
        return self.core.compile_model(self.path, "CPU", self._properties)

    def _renew(self, _: ov.CompiledModel) -> ov.CompiledModel:
        if not self.can_be_renewed:
            raise OSError(2, "No such file or directory")
        self.may_renew.wait()
        self.renewed.append(self._compile())
        return self.renewed[-1]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def given(length: int, value: float = 1.0) -> list[Tensor]:
    return [Tensor(BY_NAME["f32"], (length,), np.full(length, value, np.float32).tobytes())]


def rows(slot: OpenVinoSlot, inputs: list[Tensor]) -> int:
    (found,) = slot.run(inputs, [0])
    return found.shape[0]


def fail(slot: OpenVinoSlot, inputs: list[Tensor], message: str = rf"\({BAD}\)") -> None:
    with pytest.raises(ServingError, match=message) as caught:
        rows(slot, inputs)
    assert caught.value.code is Code.INFERENCE_FAILED


def test_the_very_inputs_that_have_just_failed_fail_again_without_a_run(made: Made) -> None:
    slots = [made.slot() for _ in range(2)]
    for slot in slots:
        fail(slot, given(BAD))
        assert len(made.renewed) == 1
        assert rows(slot, given(GOOD)) == 2


def test_inputs_that_fail_do_so_on_a_single_thread_too(tmp_path: Path) -> None:
    slot = Made(tmp_path, threads=1).slot()
    fail(slot, given(BAD))
    assert rows(slot, given(GOOD)) == 2


def test_others_of_their_shape_run_in_a_graph_that_nobody_else_uses(made: Made) -> None:
    slot = made.slot()
    fail(slot, given(BAD))
    current = made.graphs.current
    for value in (2.0, 3.0):
        fail(slot, given(BAD, value))
        assert made.graphs.current is current
        assert not current.is_spoilt
    assert len(made.renewed) == 3
    assert rows(slot, given(GOOD)) == 2


def test_a_shape_that_need_not_fail_runs_where_all_do_once_that_is_known(made: Made) -> None:
    slot = made.slot()
    made.graphs.failures.add(given(GOOD), "was too large a value")
    fail(slot, given(GOOD), "^was too large a value$")
    assert not made.renewed
    for value in (2.0, 1.0):
        assert rows(slot, given(GOOD, value)) == 2
        assert len(made.renewed) == 1


def all_at_once(made: Made, *all_inputs: list[Tensor]) -> list[Future[int]]:
    """Infer from each inputs in a slot of their own, each of which knows of a failure before a graph is made."""
    looks = Semaphore(0)

    def look() -> float:
        looks.release()
        return 0.0

    before = made.graphs.failures = Failures(look)
    before.add(given(all_inputs[0][0].shape[0]), "was too large a value")
    looks.acquire()
    made.may_renew.clear()
    with ThreadPoolExecutor(len(all_inputs)) as threads:
        running = [threads.submit(rows, made.slot(), inputs) for inputs in all_inputs]
        for _ in all_inputs:
            looks.acquire()
        made.may_renew.set()
    return running


def test_those_that_wait_for_one_of_their_shape_to_run_alone_do_not_if_it_has_not_failed(made: Made) -> None:
    running = all_at_once(made, *(given(GOOD, value) for value in (2.0, 3.0, 4.0)))
    assert [each.result() for each in running] == [2, 2, 2]
    assert len(made.renewed) == 1


def test_those_that_wait_while_the_very_same_fail_do_so_without_a_run(made: Made) -> None:
    for each in all_at_once(made, *[given(BAD, 2.0)] * 3):
        with pytest.raises(ServingError, match=rf"\({BAD}\)"):
            each.result()
    assert len(made.renewed) == 1


def test_a_caller_whose_states_may_be_others_by_now_is_not_told_what_failed_before(made: Made) -> None:
    slot = OpenVinoBoundSlot(made.graphs, replace(made.spec, states=("rows",)))
    fail(slot, given(BAD))
    fail(slot, given(BAD))
    assert len(made.renewed) == 2
    # It is idle: what it failed in is to be freed.
    assert slot._graph is made.graphs.current  # pyright: ignore[reportPrivateUsage]


def test_where_no_graph_can_be_made_what_failed_before_runs_as_all_do(made: Made) -> None:
    slot = made.slot()
    made.graphs.failures.add(given(GOOD), "was too large a value")
    made.can_be_renewed = False
    assert rows(slot, given(GOOD, 2.0)) == 2


def test_a_failure_is_remembered_for_a_while_and_of_so_many_shapes() -> None:
    now = [0.0]
    failures = Failures(lambda: now[0])
    for length in range(1, 66):
        failures.add(given(length), f"{length} is no good")
    assert failures.like(given(1)) is None
    known = failures.like(given(65, 2.0))
    assert known is not None
    assert known.message == "65 is no good"
    assert known.is_of(given(65))
    assert not known.is_of(given(65, 2.0))
    failures.forget(given(64))
    assert failures.like(given(64)) is None
    now[0] = LATELY_S
    assert failures.like(given(65)) is None
    assert repr(failures) == "<Failures of 63 shapes>"
