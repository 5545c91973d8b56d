"""When a request's callback runs, and what it may do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any, cast
from weakref import finalize

import numpy as np
import pytest
from tests.waiting import LIMIT_S, wait_until

import inferwire as ov
from inferwire.requests.callbacks import CallbackThreads
from inferwire.transport.fake_transport import FakeExecution, FakeTransport

TIMEOUT_MS = LIMIT_S * 1000
Finish = Callable[[FakeExecution], None]

ONES = np.ones((1, 3), np.float32)


class Picture:
    """What a program may have with an inference."""


def test_a_wait_returns_after_the_callback_has(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def callback(userdata: Any) -> None:
        entered.set()
        assert leave.wait(LIMIT_S)

    request_.set_callback(callback, None)
    request_.start_async(ONES)
    finish(transport.executions[0])
    assert entered.wait(LIMIT_S)
    assert request_.wait_for(0) is False
    assert request_.results[0].tolist() == [[2, 2, 2]]
    leave.set()
    assert request_.wait_for(TIMEOUT_MS)


def test_the_callback_runs_on_a_thread_of_the_sdk(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    threads: list[str] = []
    transport.answer = finish
    request_.set_callback(lambda userdata: threads.append(threading.current_thread().name), None)
    request_.start_async(ONES)
    request_.wait()
    assert threads[0].startswith("inferwire-callback")


def test_userdata_sticks_until_it_is_given_anew(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    seen: list[Any] = []
    transport.answer = finish
    request_.set_callback(seen.append, "first")
    for userdata in (None, "second", None):
        request_.start_async(ONES, userdata)
        request_.wait()
    assert seen == ["first", "second", "second"]
    assert request_.userdata == "second"


def test_userdata_is_let_go_once_another_callback_has_its_own(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    transport.answer = finish
    userdata = Picture()
    request_.set_callback(lambda _: None, userdata)
    request_.start_async(ONES)
    request_.wait()
    request_.set_callback(lambda _: None, None)
    gone = threading.Event()
    finalize(userdata, gone.set)
    del userdata
    assert gone.wait(LIMIT_S)


def test_userdata_without_a_callback_is_warned_about(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    transport.answer = finish
    with pytest.warns(RuntimeWarning, match="There is no callback function!"):
        request_.start_async(ONES, "userdata")
    request_.wait()
    assert request_.userdata is None


def test_a_sync_inference_calls_nobody(transport: FakeTransport, request_: ov.InferRequest, finish: Finish) -> None:
    seen: list[Any] = []
    transport.answer = finish
    request_.set_callback(seen.append, "userdata")
    request_.infer(ONES)
    request_.wait()
    assert not seen


def test_a_failed_or_cancelled_execution_calls_nobody(transport: FakeTransport, request_: ov.InferRequest) -> None:
    seen: list[Any] = []
    request_.set_callback(seen.append, "userdata")
    request_.start_async(ONES)
    transport.executions[0].fail(ov.InferenceFailed("no"))
    with pytest.raises(ov.InferenceFailed):
        request_.wait()
    request_.start_async(ONES)
    request_.cancel()
    with pytest.raises(ov.Cancelled):
        request_.wait()
    assert not seen


def test_what_a_callback_raises_is_told_to_every_wait(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    def callback(userdata: int) -> None:
        raise ValueError(f"boom {userdata}")

    transport.answer = finish
    request_.set_callback(callback, 7)
    request_.start_async(ONES)
    for wait in (request_.wait, lambda: request_.wait_for(TIMEOUT_MS)):
        with pytest.raises(RuntimeError, match=r"ValueError: boom 7\n\nAt:\n.*test_callbacks.py\(\d+\): callback"):
            wait()
    assert request_.results[0].tolist() == [[2, 2, 2]]


def test_an_error_of_a_callback_that_has_no_text_is_told_by_its_class_and_costs_no_thread(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    class Untold(Exception):
        def __str__(self) -> str:
            raise TypeError

    def complain(_: object) -> None:
        threads.append(threading.get_ident())
        raise Untold

    threads: list[int] = []
    transport.answer = finish
    request_.set_callback(complain, None)
    for _ in range(2):
        request_.start_async(ONES)
        with pytest.raises(RuntimeError, match=r"^Untold: <exception str"):
            request_.wait()
    assert {thread.ident for thread in threading.enumerate()}.issuperset(threads)


def test_a_callback_may_start_its_request_again_and_a_wait_is_for_one_execution(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    restarted = threading.Event()
    left = [2]

    def callback(userdata: Any) -> None:
        if left[0]:
            left[0] -= 1
            request_.start_async(ONES)
        restarted.set()

    request_.set_callback(callback, None)
    request_.start_async(ONES)
    finish(transport.executions[0])
    assert restarted.wait(LIMIT_S)
    restarted.clear()
    assert request_.wait_for(0) is False
    finish(transport.executions[1])
    assert restarted.wait(LIMIT_S)
    finish(transport.executions[2])
    request_.wait()
    assert left == [0]


def test_a_callback_may_run_another_request(
    transport: FakeTransport, compiled: ov.CompiledModel, request_: ov.InferRequest, finish: Finish
) -> None:
    other = compiled.create_infer_request()
    results: list[Any] = []
    transport.answer = finish
    request_.set_callback(lambda _: results.append(other.infer(ONES * 4)[0].tolist()), None)
    request_.start_async(ONES)
    request_.wait()
    assert results == [[[8, 8, 8]]]


def test_waiting_for_oneself_in_the_callback_is_an_error(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    transport.answer = finish
    request_.set_callback(lambda _: request_.wait(), None)
    request_.start_async(ONES)
    with pytest.raises(RuntimeError, match="inside the request's own callback"):
        request_.wait()


@pytest.mark.parametrize("arguments", [(print,), (None, None), (3, None)])
def test_a_callback_must_be_callable_and_have_userdata(request_: ov.InferRequest, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"set_callback\(\): incompatible function arguments"):
        request_.set_callback(*arguments)


def test_callbacks_that_wait_inside_the_sdk_give_their_place_away() -> None:
    threads = CallbackThreads(limit=1)
    inner, outer = threading.Event(), threading.Event()

    def wait_for_inner() -> None:
        with threads.blocking():
            assert inner.wait(LIMIT_S)
        outer.set()

    threads.run(wait_for_inner)
    threads.run(inner.set)
    assert outer.wait(LIMIT_S)


def test_a_callback_that_waits_for_one_far_behind_it_holds_nobody_up() -> None:
    threads = CallbackThreads(limit=2)
    last, first = threading.Event(), threading.Event()
    threads.run(lambda: last.wait(LIMIT_S) and first.set())
    for _ in range(50):
        threads.run(threading.Event().set)
    threads.run(last.set)
    assert first.wait(LIMIT_S)


def test_callbacks_run_side_by_side_up_to_the_limit() -> None:
    threads = CallbackThreads(limit=2)
    together = threading.Barrier(3)
    for _ in range(2):
        threads.run(lambda: together.wait(LIMIT_S))
    together.wait(LIMIT_S)
    assert repr(threads).endswith("2 threads>")


@contextmanager
def no_more_threads() -> Generator[None]:
    """Have the system refuse every further thread."""
    usual = threading.stack_size(1 << 46)
    try:
        yield
    finally:
        threading.stack_size(usual)


def test_a_callback_for_which_there_is_no_thread_runs_on_the_one_that_brings_it() -> None:
    threads = CallbackThreads()
    ran: SimpleQueue[int] = SimpleQueue()
    with no_more_threads():
        threads.run(lambda: ran.put(threading.get_ident()))
    assert ran.get_nowait() == threading.get_ident()
    threads.run(lambda: ran.put(threading.get_ident()))
    assert ran.get(timeout=LIMIT_S) != threading.get_ident(), "the shortage is over"
    assert repr(threads).endswith(" 1 threads>")


def test_a_callback_that_runs_on_the_thread_that_brings_it_must_not_wait() -> None:
    """That thread may be the one which reads the answers."""
    threads = CallbackThreads()
    errors: list[str] = []

    def callback() -> None:
        try:
            with threads.blocking():
                errors.append("it waited")
        except RuntimeError as error:
            errors.append(str(error))

    with no_more_threads():
        threads.run(callback)
    assert errors == ["a callback cannot wait here: the system gives no thread to run it on"]
    with threads.blocking():
        errors.clear()
    assert errors == [], "this thread may wait again"


def test_a_callback_that_waits_runs_the_others_where_there_is_no_thread_for_them() -> None:
    threads = CallbackThreads(limit=1)
    entered, go_on = threading.Event(), threading.Event()
    ran: SimpleQueue[int] = SimpleQueue()

    def waiting() -> None:
        entered.set()
        assert go_on.wait(LIMIT_S)
        with threads.blocking():
            ran.put(0)

    threads.run(waiting)
    assert entered.wait(LIMIT_S)
    for number in (1, 2):
        threads.run(partial(ran.put, number))
    with no_more_threads():
        go_on.set()
        assert [ran.get(timeout=LIMIT_S) for _ in range(3)] == [1, 2, 0]
    # The place that was given away is taken again: one thread, as before.
    threads.run(partial(ran.put, 3))
    assert ran.get(timeout=LIMIT_S) == 3
    assert repr(threads).endswith(" 1 threads>")


def test_a_callback_that_finds_no_further_thread_waits_for_those_that_run() -> None:
    threads = CallbackThreads()
    ran: SimpleQueue[int] = SimpleQueue()
    entered, leave = threading.Event(), threading.Event()

    def holding() -> None:
        entered.set()
        leave.wait(LIMIT_S)

    threads.run(holding)
    assert entered.wait(LIMIT_S)
    with no_more_threads():
        threads.run(partial(ran.put, 1))
    leave.set()
    assert ran.get(timeout=LIMIT_S) == 1


def test_garbage_collection_may_bring_a_callback_while_a_thread_is_called_in() -> None:
    """From Python 3.12 on it may run after any call, and end a task whose request a refused job then gets."""
    threads = CallbackThreads()
    woken, brought = threading.Event(), threading.Event()
    threads.run(threading.Event().set)
    wait_until(lambda: threads._resting)
    bell = threads._resting.pop()

    class Collecting:
        def release(self) -> None:
            bell.release()
            woken.wait()
            threads.run(brought.set)

    threads._resting.append(cast("threading.Lock", Collecting()))
    threading.Thread(target=threads.run, args=(woken.set,), daemon=True).start()
    assert brought.wait(LIMIT_S)
