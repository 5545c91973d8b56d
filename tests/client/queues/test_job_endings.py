"""What is told of jobs that have ended: callbacks see their request, errors are raised once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from tests.client.queues.conftest import ONES, Finish
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.requests import infer_request
from inferwire.requests.ov_dict import OVDict
from inferwire.requests.request_results import results_of
from inferwire.requests.request_tensors import RequestTensors
from inferwire.transport.fake_transport import FakeExecution, FakeTransport


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


def test_a_request_is_idle_only_after_its_callback(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    entered, leave = threading.Event(), threading.Event()

    def callback(request: ov.InferRequest, userdata: Any) -> None:
        entered.set()
        assert leave.wait(LIMIT_S)

    queue.set_callback(callback)
    queue.start_async(ONES)
    finish(transport.executions[0])
    assert entered.wait(LIMIT_S)
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


def test_the_results_of_a_request_are_read_before_its_queue_gives_it_to_others(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    was_idle: list[bool] = []

    def read(tensors: RequestTensors, *, share: bool, decode_strings: bool) -> OVDict:
        was_idle.append(queue.is_ready())
        return results_of(tensors, share=share, decode_strings=decode_strings)

    monkeypatch.setattr(infer_request, "results_of", read)
    transport.answer = finish
    assert queue[0].infer(ONES)["out"].tolist() == [[2, 2, 2]]
    assert (was_idle, queue.is_ready()) == ([False], True)


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
