"""The pool: no request is ever lost, errors are raised once, callbacks see their request."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inferwire as ov
from inferwire.queues.infer_queue import FEWEST_BATCHED_JOBS, FEWEST_JOBS
from inferwire.requests.callbacks import CALLBACK_THREADS
from inferwire.transport.descriptions import ModelDescription
from inferwire.transport.fake_transport import FakeExecution, FakeTransport

TIMEOUT_S = 10
Finish = Callable[[FakeExecution], None]

ONES = np.ones((1, 3), np.float32)


@pytest.fixture
def queue(compiled: ov.CompiledModel) -> ov.AsyncInferQueue:
    return ov.AsyncInferQueue(compiled, 2)


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


@pytest.mark.parametrize("jobs", [-1, "x", 1.5])
def test_a_number_of_jobs_must_be_one(compiled: ov.CompiledModel, jobs: Any) -> None:
    with pytest.raises(TypeError, match=r"__init__\(\): incompatible constructor arguments"):
        ov.AsyncInferQueue(compiled, jobs)


def test_requests_are_found_by_position(queue: ov.AsyncInferQueue) -> None:
    assert list(queue) == [queue[0], queue[1]]
    with pytest.raises(IndexError):
        queue[2]
    with pytest.raises(TypeError):
        queue[-1]


def test_callbacks_get_the_request_and_its_userdata(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish
) -> None:
    seen: dict[int, Any] = {}
    transport.answer = finish
    queue.set_callback(lambda request, userdata: seen.update({userdata: request.results["out"][0, 0]}))
    for index in range(5):
        queue.start_async(ONES * index, index)
    queue.wait_all()
    assert seen == {index: 2 * index for index in range(5)}


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
    with ThreadPoolExecutor() as pool:
        third = pool.submit(queue.start_async, ONES)
        finish(transport.executions[1])
        third.result(TIMEOUT_S)
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
        while len(sleeping._waiters) == before:
            assert not waiting.done()
        return waiting

    queue.start_async(ONES)
    queue.start_async(ONES)
    with ThreadPoolExecutor() as pool:
        for_all = waits(queue.wait_all)
        for_one = waits(queue.get_idle_request_id)
        also_for_all = waits(queue.wait_all)
        finish(transport.executions[0])
        try:
            assert for_one.result(TIMEOUT_S) == 0
            assert not for_all.done()
            assert not also_for_all.done()
        finally:
            finish(transport.executions[1])
        for_all.result(TIMEOUT_S)
        also_for_all.result(TIMEOUT_S)


def test_a_request_is_idle_only_after_its_callback(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    entered, leave = threading.Event(), threading.Event()

    def callback(request: ov.InferRequest, userdata: Any) -> None:
        entered.set()
        assert leave.wait(TIMEOUT_S)

    queue.set_callback(callback)
    queue.start_async(ONES)
    finish(transport.executions[0])
    assert entered.wait(TIMEOUT_S)
    assert not queue.is_ready()
    with pytest.raises(RuntimeError, match="Infer Request is busy"):
        queue.set_callback(callback)
    leave.set()
    queue.wait_all()
    assert queue.is_ready()


@pytest.mark.parametrize("ask", ["wait_all", "get_idle_request_id", "start_async"])
def test_an_error_is_raised_once_by_whoever_asks_next(
    transport: FakeTransport, queue: ov.AsyncInferQueue, ask: str, finish: Finish
) -> None:
    queue.start_async(ONES)
    transport.executions[0].fail(ov.InferenceFailed("the plugin said no"))
    assert queue.is_ready()
    with pytest.raises(ov.InferenceFailed, match="the plugin said no"):
        getattr(queue, ask)()
    transport.answer = finish
    queue.start_async(ONES)
    queue.wait_all()


def test_each_failure_is_told_to_an_error_callback_and_raised_by_nobody(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish
) -> None:
    done, failed = list[str](), dict[str, str]()
    queue.set_callback(lambda _, userdata: done.append(userdata))
    queue.set_error_callback(lambda _, userdata, error: failed.update({userdata: str(error)}))
    for name in "ab":
        queue.start_async(ONES, name)
    for execution in tuple(transport.executions):
        execution.fail(ov.InferenceFailed("the plugin said no"))
    transport.answer = finish
    queue.start_async(ONES, "c")
    queue.wait_all()
    assert (done, failed) == (["c"], dict.fromkeys("ab", "the plugin said no"))


def test_a_request_is_idle_only_after_its_error_callback(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)

    def start_again(request: ov.InferRequest, left: int, error: RuntimeError) -> None:
        assert not queue.is_ready()
        raise ValueError(f"{left}: {error}")

    queue.set_error_callback(start_again)
    queue.start_async(ONES, 7)
    with pytest.raises(RuntimeError, match="Infer Request is busy"):
        queue.set_error_callback(start_again)
    transport.executions[0].fail(ov.InferenceFailed("no"))
    with pytest.raises(ValueError, match="7: no"):
        queue.wait_all()
    assert queue.is_ready()


def test_an_error_callback_must_be_callable(queue: ov.AsyncInferQueue) -> None:
    with pytest.raises(TypeError, match=r"set_error_callback\(\): incompatible function arguments"):
        queue.set_error_callback(3)  # pyright: ignore[reportArgumentType]


def test_a_job_that_a_full_queue_refuses_begins_again_when_another_has_ended(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish
) -> None:
    seen: dict[str, Any] = {}
    queue.set_callback(lambda request, userdata: seen.update({userdata: request.results["out"][0, 0]}))
    queue.start_async(ONES, "first")
    queue.start_async(ONES * 2, "second")
    first, second = transport.executions
    second.fail(ov.QueueFull("full", retry_after_s=3600.0))
    assert not queue.is_ready()
    transport.answer = finish
    finish(first)
    queue.wait_all()
    assert seen == {"first": 2, "second": 4}


def test_a_job_that_a_full_queue_refuses_begins_again_after_a_while(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish
) -> None:
    seen: list[Any] = []

    def refuse(execution: FakeExecution) -> None:
        transport.answer = finish
        execution.fail(ov.QueueFull("full", retry_after_s=0.001))

    transport.answer = refuse
    queue.set_callback(lambda _, userdata: seen.append(userdata))
    queue.start_async(ONES, "only")
    queue.wait_all()
    assert (seen, len(transport.executions)) == (["only"], 2)


@pytest.fixture
def refused(transport: FakeTransport, queue: ov.AsyncInferQueue) -> ov.InferRequest:
    """A request whose job waits for room, while another one runs: nothing but the end of that one brings it."""
    queue.start_async(ONES, "running")
    queue.start_async(ONES * 2, "refused")
    transport.executions[1].fail(ov.QueueFull("full", retry_after_s=3600.0))
    return queue[1]


def test_a_job_that_waits_for_room_is_one_job_to_whoever_waits_for_it(
    transport: FakeTransport, refused: ov.InferRequest, finish: Finish
) -> None:
    assert refused.wait_for(0) is False
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(refused.wait)
        transport.answer = finish
        finish(transport.executions[0])
        waiting.result(TIMEOUT_S)
    assert refused.results["out"].tolist() == [[4, 4, 4]]


def test_the_request_of_a_job_that_waits_for_room_is_busy(
    transport: FakeTransport, queue: ov.AsyncInferQueue, refused: ov.InferRequest, finish: Finish
) -> None:
    transport.answer = finish
    for touch in (lambda: refused.infer(ONES * 9), lambda: refused.set_input_tensor(ov.Tensor(ONES * 9))):
        with pytest.raises(RuntimeError, match=r"^Infer Request is busy$"):
            touch()
    finish(transport.executions[0])
    queue.wait_all()
    assert refused.results["out"].tolist() == [[4, 4, 4]]


def test_a_job_that_waits_for_room_can_be_cancelled(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish
) -> None:
    done, failed = list[str](), dict[str, type[RuntimeError]]()
    transport.answer = lambda execution: execution.fail(ov.QueueFull("full", retry_after_s=3600.0))
    queue.set_callback(lambda _, userdata: done.append(userdata))
    queue.set_error_callback(lambda _, userdata, error: failed.update({userdata: type(error)}))
    for name in "ab":
        queue.start_async(ONES, name)
    transport.answer = finish
    queue[0].cancel()
    with pytest.raises(ov.Cancelled, match="Infer Request was canceled"):
        queue[0].wait()
    # As one waits no more, the other has its turn.
    queue.wait_all()
    assert (done, failed, len(transport.executions)) == (["b"], {"a": ov.Cancelled}, 3)
    transport.answer = None
    for _ in queue:
        queue.start_async(ONES)
    assert not queue.is_ready()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_does_not_begin_again_what_its_parent_has_waiting(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    queue = ov.AsyncInferQueue(compiled, 2)
    queue.start_async(ONES)
    transport.executions[0].fail(ov.QueueFull("full", retry_after_s=3600.0))
    transport.answer = finish
    child = os.fork()
    if child == 0:
        queue.start_async(ONES)
        all_else_ran = threading.Event()
        CALLBACK_THREADS.run(all_else_ran.set)
        all_else_ran.wait(TIMEOUT_S)
        os._exit(len(transport.executions))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


async def test_a_job_whose_states_have_no_room_has_failed(description: ModelDescription) -> None:
    transport = FakeTransport(replace(description, states=("memory",)))
    queue = ov.AsyncInferQueue(ov.Core(transport=transport).served_model("double"), 2)
    transport.answer = lambda execution: execution.fail(ov.QueueFull("the states of 64 callers", retry_after_s=0.001))
    with pytest.raises(ov.QueueFull, match="the states of 64 callers"):
        await queue.infer_async(ONES)
    queue.start_async(ONES)
    with pytest.raises(ov.QueueFull, match="the states of 64 callers"):
        queue.wait_all()
    assert len(transport.executions) == 2


def test_what_cannot_begin_again_has_failed(transport: FakeTransport, queue: ov.AsyncInferQueue) -> None:
    def refuse(execution: FakeExecution) -> None:
        transport.answer = gone
        execution.fail(ov.QueueFull("full", retry_after_s=0.001))

    def gone(_: FakeExecution) -> None:
        raise ov.ServerUnavailable("nobody answers")

    transport.answer = refuse
    queue.start_async(ONES)
    with pytest.raises(ov.ServerUnavailable, match="nobody answers"):
        queue.wait_all()
    assert queue.get_idle_request_id() in (0, 1)


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


def test_what_a_callback_raises_keeps_its_type(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish
) -> None:
    class Boom(Exception):
        pass

    def callback(request: ov.InferRequest, userdata: Any) -> None:
        raise Boom(userdata)

    transport.answer = finish
    queue.set_callback(callback)
    queue.start_async(ONES, 7)
    with pytest.raises(Boom, match="7"):
        queue.wait_all()
    queue.wait_all()
    assert queue.is_ready()


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


def test_a_cancelled_request_comes_back(transport: FakeTransport, compiled: ov.CompiledModel) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    queue.start_async(ONES)
    queue[0].cancel()
    with pytest.raises(ov.Cancelled, match="Infer Request was canceled"):
        queue.wait_all()
    assert queue.is_ready()


def test_a_callback_may_start_another(transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish) -> None:
    seen: list[int] = []

    def callback(request: ov.InferRequest, left: int) -> None:
        seen.append(left)
        if left:
            queue.start_async(ONES, left - 1)

    transport.answer = finish
    queue.set_callback(callback)
    queue.start_async(ONES, 3)
    queue.wait_all()
    assert seen == [3, 2, 1, 0]


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_callback_may_not_wait_for_its_own_end(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish, *, is_refused: bool
) -> None:
    """Its queue's other requests are others' business, and one of them is waited for."""
    queue = ov.AsyncInferQueue(compiled, 1 if is_refused else 2)
    wait: Callable[[], object] = queue.wait_all if is_refused else queue.get_idle_request_id
    queue.set_callback(lambda request, _: wait())
    queue.set_error_callback(lambda request, userdata, error: wait())

    def fail(execution: FakeExecution) -> None:
        execution.fail(ov.InferenceFailed("no"))

    for answer in (finish, fail):
        transport.answer = answer
        queue.start_async(ONES)
        with pytest.raises(RuntimeError, match=r"inside a callback .* never") if is_refused else nullcontext():
            queue.wait_all()


def test_the_callback_of_the_only_job_may_not_wait_for_another(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    transport.answer = finish
    queue = ov.AsyncInferQueue(compiled, 1)
    queue.set_callback(lambda _request, _userdata: queue.start_async(ONES))
    queue.start_async(ONES)
    with pytest.raises(RuntimeError, match="only one would never return"):
        queue.wait_all()


def test_requests_that_are_started_directly_are_the_queue_s_as_well(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish
) -> None:
    seen: list[tuple[bool, Any]] = []
    queue.set_callback(lambda request, userdata: seen.append((request is queue[0], userdata)))
    queue[0].start_async(ONES)
    assert queue.get_idle_request_id() == 1
    queue.start_async(ONES, "b")
    assert not queue.is_ready()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(queue.wait_all)
        finish(transport.executions[1])
        assert not waiting.done()
        finish(transport.executions[0])
        waiting.result(TIMEOUT_S)
    assert sorted(seen) == [(False, "b"), (True, None)]


def test_a_request_that_is_started_directly_calls_its_own_callback_if_it_has_one(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish
) -> None:
    seen: list[Any] = []
    transport.answer = finish
    queue.set_callback(lambda _, userdata: seen.append(userdata))
    queue[0].set_callback(seen.append, "own")
    queue[0].start_async(ONES)
    queue.wait_all()
    queue[0].infer(ONES)
    assert seen == ["own"]


def test_what_was_started_directly_and_fails_is_told_by_the_queue(
    transport: FakeTransport, queue: ov.AsyncInferQueue
) -> None:
    queue[0].start_async(ONES)
    transport.executions[0].fail(ov.InferenceFailed("the plugin said no"))
    with pytest.raises(ov.InferenceFailed):
        queue.wait_all()
    transport.answer = lambda execution: execution.fail(ov.InferenceFailed("the plugin said no"))
    with pytest.raises(ov.InferenceFailed):
        queue[0].infer(ONES)
    queue.wait_all()
    assert queue.is_ready()


def test_a_callback_may_start_its_own_request_again(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish
) -> None:
    values: list[Any] = []

    def callback(request: ov.InferRequest, userdata: Any) -> None:
        values.append(request.infer(ONES * 5)["out"][0, 0])
        if len(values) < 3:
            request.start_async(ONES)

    transport.answer = finish
    queue.set_callback(callback)
    queue.start_async(ONES)
    queue.wait_all()
    assert values == [10, 10, 10]
    transport.answer = None
    for _ in queue:
        queue.start_async(ONES)
    assert not queue.is_ready()


def test_a_callback_must_be_callable(queue: ov.AsyncInferQueue) -> None:
    with pytest.raises(TypeError, match=r"set_callback\(\): incompatible function arguments"):
        queue.set_callback(3)  # pyright: ignore[reportArgumentType]


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
