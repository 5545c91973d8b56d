"""A request's states and the order of events, on a transport that the test holds."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport.fake_transport import FakeExecution, FakeOutput, FakeTransport
from inferwire_proto.element_types import BY_NAME

Finish = Callable[[FakeExecution], None]

ONES: NDArray[np.float32] = np.ones((1, 3), np.float32)


def test_results_are_there_once_the_answer_is(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    request_.start_async(ONES)
    assert request_.wait_for(0) is False
    finish(transport.executions[0])
    assert request_.wait_for(0) is True
    request_.wait()
    assert request_.results["out"].tolist() == [[2, 2, 2]]
    assert request_.latency == 2.0
    assert (request_.timings.queue_ms, request_.timings.server_ms) == (1, 4)
    assert request_.timings.wire_ms == pytest.approx(8, abs=1)


@pytest.mark.parametrize("timeout_ms", [None, 0, 1500])
def test_whoever_waits_for_what_nobody_else_wants_may_receive_the_answer(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish, timeout_ms: int | None
) -> None:
    request_.start_async(ONES)
    (execution,) = transport.executions
    assert execution.is_awaited
    with DaemonThreads() as beside:
        waiting = beside.submit(request_.wait if timeout_ms is None else lambda: request_.wait_for(timeout_ms))
        assert execution.waits.get(timeout=LIMIT_S) == (None if timeout_ms is None else timeout_ms / 1000)
        finish(execution)
        waiting.result(LIMIT_S)
    request_.wait()
    assert execution.waits.empty()


WANTED: dict[str, Callable[[ov.CompiledModel, ov.InferRequest], tuple[Any, None, ov.InferRequest]]] = {
    "a request with a callback": lambda _, r: (r.set_callback(print, None), r.start_async(ONES), r),
    "a queue's job": lambda m, _: (queue := ov.AsyncInferQueue(m, 1), queue.start_async(ONES), queue[0]),
    "a queue's request": lambda m, _: (queue := ov.AsyncInferQueue(m, 1), queue[0].start_async(ONES), queue[0]),
}


@pytest.mark.parametrize("start", WANTED.values(), ids=WANTED.keys())
def test_what_is_to_be_called_by_an_answer_does_not_leave_that_to_who_waits(
    transport: FakeTransport,
    compiled: ov.CompiledModel,
    request_: ov.InferRequest,
    finish: Finish,
    start: Callable[[ov.CompiledModel, ov.InferRequest], tuple[object, object, ov.InferRequest]],
) -> None:
    queue, _, request = start(compiled, request_)
    (execution,) = transport.executions
    assert not execution.is_awaited
    assert not request.wait_for(0)
    finish(execution)
    request.wait()
    assert execution.waits.empty()
    del queue


BUSY_CALLS: dict[str, Callable[[Any], object]] = {
    "infer": lambda r: r.infer(ONES),
    "start_async": lambda r: r.start_async(ONES),
    "results": lambda r: r.results,
    "input_tensors": lambda r: r.input_tensors,
    "output_tensors": lambda r: r.output_tensors,
    "get_tensor": lambda r: r.get_tensor("data"),
    "get_input_tensor": lambda r: r.get_input_tensor(),
    "get_output_tensor": lambda r: r.get_output_tensor(0),
    "set_tensor": lambda r: r.set_tensor("data", ov.Tensor(ONES)),
    "set_input_tensor": lambda r: r.set_input_tensor(ov.Tensor(ONES)),
    "set_output_tensor": lambda r: r.set_output_tensor(0, ov.Tensor(ONES)),
    "set_tensors": lambda r: r.set_tensors({"data": ov.Tensor(ONES)}),
    "set_input_tensors": lambda r: r.set_input_tensors({0: ov.Tensor(ONES)}),
    "set_output_tensors": lambda r: r.set_output_tensors({0: ov.Tensor(ONES)}),
    "set_callback": lambda r: r.set_callback(print, None),
    "postpone_outputs": lambda r: setattr(r, "postpone_outputs", True),
    "scheduling": lambda r: setattr(r, "scheduling", ov.Scheduling(priority=1)),
    "query_state": lambda r: r.query_state(),
    "reset_state": lambda r: r.reset_state(),
    "profiling_info": lambda r: r.profiling_info,
    "get_profiling_info": lambda r: r.get_profiling_info(),
}


@pytest.mark.parametrize("call", BUSY_CALLS.values(), ids=BUSY_CALLS.keys())
def test_a_busy_request_may_not_be_touched(
    transport: FakeTransport, request_: ov.InferRequest, call: Callable[[Any], object], finish: Finish
) -> None:
    request_.start_async(ONES)
    with pytest.raises(RuntimeError, match=r"^Infer Request is busy$"):
        call(request_)
    finish(transport.executions[0])
    request_.wait()


def test_inputs_that_do_not_fit_leave_the_request_idle(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    with pytest.raises(RuntimeError, match=r"got \[2,3\] expecting \[1,3\]"):
        request_.infer(np.ones((2, 3), np.float32))
    assert not transport.executions
    transport.answer = finish
    assert request_.infer(ONES)["out"].tolist() == [[2, 2, 2]]


def test_a_failure_that_nobody_saw_does_not_stop_the_next_start(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    request_.start_async(ONES)
    transport.executions[0].fail(ov.ServerUnavailable("gone"))
    transport.answer = finish
    assert request_.infer(ONES)["out"].tolist() == [[2, 2, 2]]


def test_a_cancelled_execution_is_given_up_at_once(transport: FakeTransport, request_: ov.InferRequest) -> None:
    request_.start_async(ONES)
    request_.cancel()
    assert transport.executions[0].is_cancelled
    for wait in (request_.wait, request_.wait, lambda: request_.wait_for(0)):
        with pytest.raises(ov.Cancelled, match="Infer Request was canceled"):
            wait()
    assert request_.results["out"].shape == (1, 3)


def test_a_late_answer_after_a_cancel_is_dropped(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    request_.start_async(ONES)
    request_.cancel()
    request_.start_async(ONES * 5)
    finish(transport.executions[0])
    assert request_.wait_for(0) is False
    finish(transport.executions[1])
    request_.wait()
    assert request_.results[0].tolist() == [[10, 10, 10]]


def test_a_sync_inference_can_be_cancelled_from_another_thread(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    sent = threading.Event()
    transport.answer = lambda execution: sent.set()
    with DaemonThreads() as pool:
        result = pool.submit(request_.infer, ONES)
        assert sent.wait(LIMIT_S)
        request_.cancel()
        with pytest.raises(RuntimeError, match="Infer Request was canceled"):
            result.result(LIMIT_S)


def test_one_of_two_threads_finds_the_request_busy(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    barrier = threading.Barrier(2)

    def infer() -> str:
        barrier.wait(LIMIT_S)
        try:
            request_.start_async(ONES)
        except RuntimeError as error:
            return str(error)
        return "started"

    with DaemonThreads() as pool:
        outcomes = sorted(future.result(LIMIT_S) for future in [pool.submit(infer), pool.submit(infer)])
    assert outcomes == ["Infer Request is busy", "started"]
    finish(transport.executions[0])
    request_.wait()


def test_a_server_that_cannot_be_reached_leaves_the_request_idle(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    def refuse(execution: FakeExecution) -> None:
        raise ov.ServerUnavailable("no server")

    transport.answer = refuse
    with pytest.raises(ov.ServerUnavailable):
        request_.start_async(ONES)
    with pytest.raises(ov.ServerUnavailable):
        request_.wait()
    assert request_.results["out"].shape == (1, 3)


def test_an_output_that_is_not_the_models_is_an_error_of_that_execution(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    request_.start_async(ONES)
    transport.executions[0].finish(FakeOutput(BY_NAME["i32"], (1, 3), bytes(12)))
    with pytest.raises(RuntimeError, match="gave output 0 as i32, expected f32"):
        request_.wait()
    request_.start_async(ONES)
    transport.executions[1].finish(FakeOutput(BY_NAME["f32"], (1, 3), bytes(11)))
    with pytest.raises(ov.InferwireError, match="11 bytes, expected 12"):
        request_.wait()
    request_.start_async(ONES)
    transport.executions[2].finish()
    with pytest.raises(RuntimeError, match="gave 0 outputs, expected 1"):
        request_.wait()


def test_a_request_that_nobody_holds_is_cancelled_and_calls_nobody(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    called: list[object] = []
    request = compiled.create_infer_request()
    request.set_callback(called.append, "userdata")
    request.start_async(ONES)
    del request
    gc.collect()
    assert transport.executions[0].is_cancelled
    finish(transport.executions[0])
    assert not called


def test_the_compiled_model_of_a_request_is_an_object_of_its_own(
    compiled: ov.CompiledModel, request_: ov.InferRequest
) -> None:
    """As openvino's is; what it stands for is the same."""
    found = request_.get_compiled_model()
    assert found is not compiled
    assert found.inputs == compiled.inputs
    assert found._model is compiled._model


def fail(execution: FakeExecution) -> None:
    execution.fail(ov.QueueFull("full", retry_after_s=7.0))


def refuse(_: FakeExecution) -> None:
    raise ov.QueueFull("full", retry_after_s=7.0)


def start_and_wait(request: ov.InferRequest) -> None:
    request.start_async(ONES)
    request.wait()


class Picture:
    """Something that a program has at hand."""


FAILURES: dict[str, tuple[Callable[[FakeExecution], None], Callable[[ov.InferRequest], object]]] = {
    "infer": (fail, lambda request: request.infer(ONES)),
    "wait": (fail, start_and_wait),
    "infer that is not sent": (refuse, lambda request: request.infer(ONES)),
    "start_async that is not sent": (refuse, start_and_wait),
    "inputs that do not fit": (fail, lambda request: request.infer(np.ones((2, 3), np.float32))),
}


@pytest.mark.parametrize(("answer", "infer"), FAILURES.values(), ids=FAILURES.keys())
def test_a_failure_keeps_nothing_of_whoever_was_told(
    transport: FakeTransport,
    request_: ov.InferRequest,
    answer: Callable[[FakeExecution], None],
    infer: Callable[[ov.InferRequest], object],
) -> None:
    def serve() -> weakref.ref[Picture]:
        picture = Picture()
        with pytest.raises(RuntimeError):
            infer(request_)
        return weakref.ref(picture)

    transport.answer = answer
    gc.disable()
    try:
        assert serve()() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(("answer", "infer"), FAILURES.values(), ids=FAILURES.keys())
def test_a_request_that_failed_is_freed_with_its_last_reference(
    transport: FakeTransport,
    compiled: ov.CompiledModel,
    answer: Callable[[FakeExecution], None],
    infer: Callable[[ov.InferRequest], object],
) -> None:
    request = compiled.create_infer_request()
    transport.answer = answer
    gc.disable()
    try:
        with pytest.raises(RuntimeError):
            infer(request)
        freed = weakref.ref(request)
        del request
        assert freed() is None
    finally:
        gc.enable()


def test_a_failure_is_raised_anew_by_each_wait(transport: FakeTransport, request_: ov.InferRequest) -> None:
    transport.answer = fail
    request_.start_async(ONES)
    with pytest.raises(ov.QueueFull, match=r"^full$") as first:
        request_.wait()
    with pytest.raises(ov.QueueFull, match=r"^full$") as second:
        request_.wait()
    assert first.value is not second.value
    assert (first.value.retry_after_s, second.value.retry_after_s) == (7, 7)


class DeviceLost(RuntimeError):
    """An error of a program's own, made of something else than its text."""

    def __init__(self, code: int, where: str) -> None:
        super().__init__(f"{code}: {where}")
        self.code = code


class Unreadable(RuntimeError):
    """An error that nothing can be made of: neither another one nor a text."""

    def __new__(cls, code: int, where: str) -> Unreadable:
        del code, where
        return super().__new__(cls)

    def __init__(self, code: int, where: str) -> None:
        super().__init__()

    def __reduce__(self) -> Any:
        raise TypeError

    def __str__(self) -> str:
        raise TypeError

    __repr__ = __str__


class UnreadableValue(ValueError):
    """An error of another kind, which does not even show itself."""

    def __repr__(self) -> str:
        raise TypeError


OF_A_PROGRAM: dict[str, Callable[[], Exception]] = {
    "without a text": RuntimeError,
    "of its text": lambda: RuntimeError("device lost"),
    "of something else": lambda: DeviceLost(7, "device lost"),
    "unreadable": lambda: Unreadable(7, "device lost"),
    "unreadable value": UnreadableValue,
}


class Lost:
    """An array that is not there when it is looked at."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __array__(self, *args: object, **kwargs: object) -> NDArray[np.float32]:
        raise self._error


def infer_in_a_task(request: ov.InferRequest, inputs: Any) -> None:
    errors: list[Exception] = []  # asyncio shows what a task raises, and gives

    async def infer() -> None:
        try:
            await request.infer_async(inputs)
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)

    asyncio.run(infer())
    raise errors[0]


INFERENCES: dict[str, Callable[[ov.InferRequest, Any], object]] = {
    "infer": lambda request, inputs: request.infer(inputs),
    "start_async": lambda request, inputs: request.start_async(inputs),
    "infer_async": infer_in_a_task,
}


OF_ANY_MAKING = pytest.mark.parametrize("make_error", OF_A_PROGRAM.values(), ids=OF_A_PROGRAM.keys())
IN_EVERY_WAY = pytest.mark.parametrize("infer", INFERENCES.values(), ids=INFERENCES.keys())


@OF_ANY_MAKING
@IN_EVERY_WAY
def test_an_input_may_raise_errors_of_any_making(
    transport: FakeTransport,
    request_: ov.InferRequest,
    infer: Callable[[ov.InferRequest, Any], object],
    make_error: Callable[[], Exception],
    finish: Finish,
) -> None:
    error = make_error()
    with pytest.raises(type(error)) as raised:
        infer(request_, Lost(error))
    assert raised.value is error
    transport.answer = finish
    assert request_.infer(ONES)["out"].tolist() == [[2, 2, 2]]


@OF_ANY_MAKING
@IN_EVERY_WAY
def test_an_error_of_any_making_may_end_an_inference(
    transport: FakeTransport,
    request_: ov.InferRequest,
    infer: Callable[[ov.InferRequest, Any], object],
    make_error: Callable[[], Exception],
    finish: Finish,
) -> None:
    error = make_error()

    def refuse(_: FakeExecution) -> None:
        raise error

    transport.answer = refuse
    with pytest.raises(type(error)) as raised:
        infer(request_, ONES)
    assert raised.value is error
    with pytest.raises(RuntimeError):
        request_.wait()
    transport.answer = finish
    assert request_.infer(ONES)["out"].tolist() == [[2, 2, 2]]


def test_an_error_of_a_programs_own_is_told_to_every_wait_as_it_is(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    def refuse(_: FakeExecution) -> None:
        raise error

    error = DeviceLost(7, "device lost")
    error.add_note("of the left one")
    transport.answer = refuse
    with pytest.raises(DeviceLost):
        request_.start_async(ONES)
    for _ in range(2):
        with pytest.raises(DeviceLost, match=r"^7: device lost\nof the left one$") as told:
            request_.wait()
        assert told.value is not error
        assert told.value.code == 7
