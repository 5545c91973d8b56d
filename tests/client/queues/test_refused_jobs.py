"""Jobs that the server's full queue refuses begin again, and are one job to whoever waits for them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.client.queues.conftest import ONES, Finish
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.queues import refused_jobs
from inferwire.requests.callbacks import CALLBACK_THREADS
from inferwire.transport.descriptions import ModelDescription
from inferwire.transport.fake_transport import FakeExecution, FakeTransport


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


@pytest.mark.parametrize(
    "refusal",
    [
        ov.QueueFull("full", retry_after_s=0.001),
        ov.ModelNotReady("model 'double' version 1 is loading", retry_after_s=0.001),
    ],
    ids=["full queue", "loading"],
)
def test_a_job_that_is_refused_for_now_begins_again_after_a_while(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish, refusal: ov.InferwireError
) -> None:
    seen: list[Any] = []

    def refuse(execution: FakeExecution) -> None:
        transport.answer = finish
        execution.fail(refusal)

    transport.answer = refuse
    queue.set_callback(lambda _, userdata: seen.append(userdata))
    queue.start_async(ONES, "only")
    queue.wait_all()
    assert (seen, len(transport.executions)) == (["only"], 2)


@pytest.mark.parametrize(
    "error", [ov.ModelNotReady("model 'double' is unloading"), ov.ModelFailed("failed to load 'double' version 1")]
)
def test_a_job_whose_model_is_on_its_way_to_nothing_better_fails(
    transport: FakeTransport, queue: ov.AsyncInferQueue, error: ov.InferwireError
) -> None:
    def refuse(execution: FakeExecution) -> None:
        transport.answer = lambda execution: execution.fail(error)
        execution.fail(ov.ModelNotReady("model 'double' version 1 is loading", retry_after_s=0.001))

    transport.answer = refuse
    queue.start_async(ONES, "only")
    with pytest.raises(type(error), match=str(error)):
        queue.wait_all()
    assert len(transport.executions) == 2


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
    with DaemonThreads() as pool:
        waiting = pool.submit(refused.wait)
        transport.answer = finish
        finish(transport.executions[0])
        waiting.result(LIMIT_S)
    assert refused.results["out"].tolist() == [[4, 4, 4]]


def test_the_request_of_a_job_that_waits_for_room_is_busy(
    transport: FakeTransport, queue: ov.AsyncInferQueue, refused: ov.InferRequest, finish: Finish
) -> None:
    transport.answer = finish
    for touch in (lambda: refused.infer(ONES * 9), lambda: refused.set_input_tensor(ov.Tensor(ONES * 9))):
        with pytest.raises(RuntimeError, match=r"^Infer Request is busy$"):
            touch()
    # That call has ended, but no job, so that there is no more room than before.
    would_have_begun = threading.Event()
    CALLBACK_THREADS.run(would_have_begun.set)
    assert would_have_begun.wait(LIMIT_S)
    assert len(transport.executions) == 2
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


def test_a_job_that_has_begun_again_before_its_start_returns_can_be_cancelled(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_here(again: Callable[[], object]) -> None:
        again()

    def refuse_and_make_room(execution: FakeExecution) -> None:
        transport.answer = None
        execution.fail(ov.QueueFull("full", retry_after_s=3600.0))
        finish(transport.executions[0])

    monkeypatch.setattr(refused_jobs, "CALLBACK_THREADS", SimpleNamespace(run=run_here))
    queue.start_async(ONES, "running")
    transport.answer = refuse_and_make_room
    queue.start_async(ONES, "refused")
    assert len(transport.executions) == 3
    queue[1].cancel()
    assert transport.executions[2].is_cancelled


def test_a_job_that_is_cancelled_while_it_begins_again_in_vain_has_failed_once(
    transport: FakeTransport, queue: ov.AsyncInferQueue, finish: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_here(again: Callable[[], object]) -> None:
        again()

    monkeypatch.setattr(refused_jobs, "CALLBACK_THREADS", SimpleNamespace(run=run_here))
    failed: list[Any] = []
    is_over = threading.Event()

    def note(_: ov.InferRequest, userdata: Any, error: RuntimeError) -> None:
        failed.append((userdata, type(error)))
        assert is_over.wait(LIMIT_S)

    def lose(_: FakeExecution) -> None:
        queue[1].cancel()
        raise ov.ServerUnavailable("gone")

    queue.set_error_callback(note)
    queue.start_async(ONES, "running")
    queue.start_async(ONES, "refused")
    transport.executions[1].fail(ov.QueueFull("full", retry_after_s=3600.0))
    transport.answer = lose
    finish(transport.executions[0])
    is_over.set()
    queue.wait_all()
    assert failed == [("refused", ov.Cancelled)]


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
        all_else_ran.wait(LIMIT_S)
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


@pytest.mark.parametrize("retry_after_s", [3600.0, 0.001], ids=["when another ends", "after a while"])
def test_jobs_that_wait_for_room_are_cancelled_where_the_connection_is_closed(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish, retry_after_s: float
) -> None:
    queue = ov.AsyncInferQueue(compiled, 3)
    failed: dict[Any, str] = {}
    queue.set_error_callback(lambda _, userdata, error: failed.update({userdata: f"{type(error).__name__}: {error}"}))
    for index in range(3):
        queue.start_async(ONES, index)
    first, *refused = transport.executions
    transport.close()
    for execution in refused:
        execution.fail(ov.QueueFull("full", retry_after_s=retry_after_s))
    finish(first)
    queue.wait_all()
    assert failed == dict.fromkeys((1, 2), "Cancelled: the connection to fake was closed here")
    assert len(transport.executions) == 3
    transport.answer = finish
    queue.start_async(ONES)
    queue.wait_all()
    assert len(transport.executions) == 4


def test_what_its_user_began_and_a_full_queue_refuses_has_failed(
    transport: FakeTransport, queue: ov.AsyncInferQueue
) -> None:
    queue[0].start_async(ONES)
    transport.executions[0].fail(ov.QueueFull("full", retry_after_s=3600.0))
    with pytest.raises(ov.QueueFull, match="full"):
        queue[0].wait_for(1000 * LIMIT_S)
