"""The pool: no request is ever lost, and whoever waits for one is woken."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.queues.conftest import ONES, Finish
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S, wait_until

import inferwire as ov
from inferwire.queues.infer_queue import FEWEST_BATCHED_JOBS, FEWEST_JOBS
from inferwire.transport.descriptions import ModelDescription
from inferwire.transport.fake_transport import FakeTransport


def test_the_number_of_jobs_is_what_was_asked_for_or_hides_the_wire(compiled: ov.CompiledModel) -> None:
    assert len(ov.AsyncInferQueue(compiled, 3)) == 3
    assert len(ov.AsyncInferQueue(compiled)) == FEWEST_JOBS == 8
    assert repr(ov.AsyncInferQueue(compiled, 2)) == "<AsyncInferQueue: 2 jobs>"


def test_there_are_more_jobs_for_a_model_that_runs_many_executions_as_one(description: ModelDescription) -> None:
    batched = FakeTransport(replace(description, max_batch_rows=256))
    compiled = ov.Core(transport=batched).served_model("double")
    assert compiled.max_batch_rows == 256
    assert len(ov.AsyncInferQueue(compiled, 3)) == 3
    assert len(ov.AsyncInferQueue(compiled)) == FEWEST_BATCHED_JOBS == 64


def test_requests_are_found_by_position(queue: ov.AsyncInferQueue) -> None:
    assert list(queue) == [queue[0], queue[1]]
    with pytest.raises(IndexError):
        queue[2]


def test_userdata_is_per_request_and_reset_by_a_start_without(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish
) -> None:
    transport.answer = finish
    assert queue.userdata == [None, None]
    queue.start_async(ONES, "a")
    queue.start_async(ONES, "b")
    assert sorted(queue.userdata) == ["a", "b"]
    assert queue[0].userdata is None
    queue.start_async(ONES)
    assert None in queue.userdata


def test_a_start_waits_for_an_idle_request(transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish) -> None:
    queue.start_async(ONES)
    queue.start_async(ONES)
    assert not queue.is_ready()
    with DaemonThreads() as pool:
        third = pool.submit(queue.start_async, ONES)
        finish(transport.executions[1])
        third.result(LIMIT_S)
    assert len(transport.executions) == 3
    finish(transport.executions[0])
    assert queue.get_idle_request_id() == 0
    finish(transport.executions[2])
    queue.wait_all()


def test_threads_that_wait_for_one_request_and_for_all_are_each_woken_in_time(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish
) -> None:
    def waits(function: Callable[[], Any]) -> Future[Any]:
        """Have a thread wait for something, and go on once it does."""
        sleeping: Any = queue._pool._changed  # pyright: ignore[reportPrivateUsage]
        before = len(sleeping._waiters)
        waiting = pool.submit(function)
        wait_until(lambda: len(sleeping._waiters) > before)
        assert not waiting.done()
        return waiting

    queue.start_async(ONES)
    queue.start_async(ONES)
    with DaemonThreads() as pool:
        for_all = waits(queue.wait_all)
        for_one = waits(queue.get_idle_request_id)
        also_for_all = waits(queue.wait_all)
        finish(transport.executions[0])
        try:
            assert for_one.result(LIMIT_S) == 0
            assert not for_all.done()
            assert not also_for_all.done()
        finally:
            finish(transport.executions[1])
        for_all.result(LIMIT_S)
        also_for_all.result(LIMIT_S)


def test_a_queue_that_nobody_holds_is_freed_at_once(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    transport.answer = finish
    gc.disable()
    try:
        queue = ov.AsyncInferQueue(compiled, 2)
        queue.set_callback(lambda request, _: request.results)
        queue.set_error_callback(print)
        for _ in range(3):
            queue.start_async(ONES)
        queue.wait_all()
        request = weakref.ref(queue[0])
        del queue
        assert request() is None
    finally:
        gc.enable()


def test_a_queue_that_raised_an_error_is_freed_at_once(transport: FakeTransport, compiled: ov.CompiledModel) -> None:
    transport.answer = lambda execution: execution.fail(ov.InferenceFailed("no"))
    gc.disable()
    try:
        queue = ov.AsyncInferQueue(compiled, 2)
        for ask in (queue.wait_all, queue.get_idle_request_id):
            queue.start_async(ONES)
            with pytest.raises(ov.InferenceFailed):
                ask()
        request = weakref.ref(queue[0])
        del queue, ask
        assert request() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("inputs", [{"zz": ONES}, ov.Tensor(np.ones((2, 3), np.float32)), object(), [ONES, ONES]])
def test_bad_inputs_lose_no_request(
    transport: FakeTransport, compiled: ov.CompiledModel, inputs: Any, finish: Finish
) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    with pytest.raises((RuntimeError, TypeError)):
        queue.start_async(inputs, "userdata")
    assert queue.is_ready()
    assert queue.userdata == [None]
    transport.answer = finish
    queue.start_async(ONES)
    queue.wait_all()


def test_an_input_that_raises_an_error_of_its_own_making_loses_no_request(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    class DeviceLost(RuntimeError):
        def __init__(self, code: int, where: str) -> None:
            super().__init__(f"{code}: {where}")

    class Lost:
        def __array__(self, *args: object, **kwargs: object) -> Any:
            raise DeviceLost(7, "device lost")

    queue = ov.AsyncInferQueue(compiled, 1)
    with pytest.raises(DeviceLost):
        queue.start_async(Lost())
    assert queue.is_ready()
    transport.answer = finish
    queue.start_async(ONES)
    queue.wait_all()


def test_a_cancelled_request_comes_back(transport: FakeTransport, compiled: ov.CompiledModel) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    queue.start_async(ONES)
    queue[0].cancel()
    with pytest.raises(ov.Cancelled, match="Infer Request was canceled"):
        queue.wait_all()
    assert queue.is_ready()


def test_requests_that_are_started_directly_are_the_queue_s_as_well(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish
) -> None:
    seen: list[tuple[bool, Any]] = []
    queue.set_callback(lambda request, userdata: seen.append((request is queue[0], userdata)))
    queue[0].start_async(ONES)
    assert queue.get_idle_request_id() == 1
    queue.start_async(ONES, "b")
    assert not queue.is_ready()
    with DaemonThreads() as pool:
        waiting = pool.submit(queue.wait_all)
        finish(transport.executions[1])
        assert not waiting.done()
        finish(transport.executions[0])
        waiting.result(LIMIT_S)
    assert sorted(seen) == [(False, "b"), (True, None)]


def _end(step: str, queue: ov.AsyncInferQueue, transport: FakeTransport, finish: Finish) -> None:
    """Start an inference and end it in one of the ways it can."""
    queue.start_async(object() if step == "refuse" else ONES)
    if step == "finish":
        finish(transport.executions[-1])
    elif step == "fail":
        transport.executions[-1].fail(ov.InferenceFailed("no"))
    else:
        for request in queue:
            request.cancel()


@given(st.lists(st.sampled_from(["finish", "fail", "cancel", "refuse"]), max_size=30), st.integers(1, 4))
def test_whatever_happens_every_request_comes_back(
    description: ModelDescription, finish: Finish, steps: list[str], jobs: int
) -> None:
    transport = FakeTransport(description)
    queue = ov.AsyncInferQueue(ov.Core(transport=transport).served_model("double"), jobs)
    for step in steps:
        refusal = nullcontext() if step == "finish" else pytest.raises((RuntimeError, TypeError))
        with refusal:
            _end(step, queue, transport, finish)
            queue.wait_all()
    for _ in range(jobs):
        queue.start_async(ONES)
    assert not queue.is_ready()
