"""Ctrl-C, or want of memory, anywhere in an inference: the request is idle afterwards, and nobody waits for ever."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.client.interrupt import PACKAGE, Interrupt
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport.executions import Outcome, OutputForm
from inferwire.transport.fake_transport import FakeExecution, FakeTransport
from inferwire_proto.element_types import BY_NAME

Finish = Callable[[FakeExecution], None]


ONES: NDArray[np.float32] = np.ones((1, 3), np.float32)


CASES: dict[str, tuple[Callable[[ov.InferRequest], object], bool]] = {
    "infer before the answer": (lambda request: request.infer(ONES * 2), False),
    "infer with the answer": (lambda request: request.infer(ONES * 2), True),
    "start_async": (lambda request: request.start_async(ONES * 2), True),
}


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize(("infer", "is_answered"), CASES.values(), ids=CASES.keys())
def test_an_inference_can_be_interrupted_anywhere(
    transport: FakeTransport,
    request_: ov.InferRequest,
    finish: Finish,
    infer: Callable[[ov.InferRequest], object],
    error: type[BaseException],
    *,
    is_answered: bool,
) -> None:
    steps = 0
    while True:
        transport.answer = finish
        assert request_.infer(ONES)["out"].tolist() == [[2, 2, 2]]
        transport.answer = finish if is_answered else None
        with suppress(error), Interrupt(error, steps, is_answered=is_answered) as interrupt:
            infer(request_)
        assert request_.results["out"].tolist() in ([[2, 2, 2]], [[4, 4, 4]])
        with suppress(ov.Cancelled if error is KeyboardInterrupt else ov.InferwireError):
            assert request_.wait_for(0)
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 20


def test_a_cancel_can_be_interrupted_anywhere(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    steps, untold = 0, list[int]()
    while True:
        request_.start_async(ONES)
        with suppress(KeyboardInterrupt), Interrupt(KeyboardInterrupt, steps, is_answered=True) as interrupt:
            request_.cancel()
        execution = transport.executions[-1]
        if execution.is_cancelled:
            with pytest.raises(ov.Cancelled):
                request_.wait_for(0)
        else:
            finish(execution)
            try:
                assert request_.wait_for(0)
            except ov.Cancelled:
                untold.append(steps)
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 5
    assert len(untold) <= 1, "the server is told, unless that itself is interrupted"


def test_where_the_taking_of_an_answer_was_interrupted_that_it_is_delivered_again_ends_the_inference(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    steps, outcomes = 0, set[bool]()
    while True:
        request_.start_async(ONES)
        with suppress(KeyboardInterrupt), Interrupt(KeyboardInterrupt, steps, is_answered=True) as interrupt:
            finish(transport.executions[-1])
        if interrupt.is_due:
            break
        # As a stream does with all executions that were in flight.
        transport.executions[-1].fail(ov.ServerUnavailable("broken off"))
        is_answered = True
        try:
            assert request_.wait_for(0)
        except ov.ServerUnavailable:
            is_answered = False
        outcomes.add(is_answered)
        steps += 1
    assert outcomes == {False, True}


def test_an_answer_that_is_delivered_again_as_lost_counts(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    def answer(execution: FakeExecution) -> None:
        finish(execution)
        execution.fail(ov.ServerUnavailable("broken off"))

    transport.answer = answer
    assert request_.infer(ONES)["out"].tolist() == [[2, 2, 2]]


def test_what_a_signal_handler_raises_as_outputs_are_stored_is_raised(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    class Outputs(tuple[bytes, ...]):
        """Outputs, with a signal that comes as they are looked at."""

        __slots__ = ()

        def __getitem__(self, at: Any) -> Any:
            signal.raise_signal(signal.SIGUSR1)

    def handle(*_: object) -> None:
        raise ValueError("a handler's")

    form = OutputForm(BY_NAME["f32"], (1, 3))
    transport.answer = lambda execution: execution.deliver(Outcome(forms=(form,)), Outputs())
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(ValueError, match="a handler's"):
            request_.infer(ONES)
    finally:
        signal.signal(signal.SIGUSR1, before)


def check_free(use: Callable[[], object], failure: str) -> None:
    """Have another thread use something, which never returns where a lock was left taken."""
    other = threading.Thread(target=use, daemon=True)
    other.start()
    other.join(LIMIT_S)
    assert not other.is_alive(), failure


SETTINGS: dict[str, Callable[[ov.InferRequest], object]] = {
    "results": lambda request: request.results,
    "set_callback": lambda request: request.set_callback(print, None),
    "set_input_tensor": lambda request: request.set_input_tensor(ov.Tensor(ONES)),
    "set_output_tensors": lambda request: request.set_output_tensors({0: ov.Tensor(ONES)}),
    "scheduling": lambda request: setattr(request, "scheduling", ov.Scheduling(1)),
}


@pytest.mark.parametrize("use", SETTINGS.values(), ids=SETTINGS.keys())
def test_the_use_of_an_idle_request_can_be_interrupted_anywhere(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish, use: Callable[[ov.InferRequest], object]
) -> None:
    transport.answer = finish
    steps = 0
    while True:
        with suppress(KeyboardInterrupt), Interrupt(KeyboardInterrupt, steps, is_answered=True) as interrupt:
            use(request_)
        check_free(partial(request_.infer, ONES), f"after {steps} steps nobody can infer")
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 3


def start_next(queue: ov.AsyncInferQueue) -> None:
    queue.start_async(ONES)


def start_first(queue: ov.AsyncInferQueue) -> None:
    queue[0].start_async(ONES)


@pytest.mark.parametrize("is_answered", [False, True])
@pytest.mark.parametrize("start", [start_next, start_first])
def test_a_start_in_a_queue_can_be_interrupted_anywhere(
    transport: FakeTransport,
    compiled: ov.CompiledModel,
    finish: Finish,
    start: Callable[[ov.AsyncInferQueue], object],
    *,
    is_answered: bool,
) -> None:
    steps = 0
    while True:
        transport.answer = finish if is_answered else None
        queue = ov.AsyncInferQueue(compiled, 2)
        with suppress(KeyboardInterrupt), Interrupt(KeyboardInterrupt, steps, is_answered=True) as interrupt:
            start(queue)
        if interrupt.is_due:
            break
        transport.answer = None
        for index in range(2):
            queue.start_async(ONES, index)
        assert (sorted(queue.userdata), queue.is_ready()) == ([0, 1], False)
        for execution in transport.executions:
            finish(execution)
        queue.wait_all()
        transport.executions.clear()
        steps += 1
    assert steps > 20


def test_the_cancel_of_a_queues_job_can_be_interrupted_anywhere(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    steps = 0
    while True:
        queue = ov.AsyncInferQueue(compiled, 1)
        queue.start_async(ONES)
        with suppress(KeyboardInterrupt), Interrupt(KeyboardInterrupt, steps, is_answered=True) as interrupt:
            queue[0].cancel()
        if not transport.executions[-1].is_cancelled:
            finish(transport.executions[-1])
        assert queue.is_ready(), f"after {steps} steps nobody can infer"
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 10


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_start_that_is_interrupted_gives_its_request_back_once(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish, *, is_answered: bool
) -> None:
    def interrupt(execution: FakeExecution) -> None:
        if is_answered:
            finish(execution)
        raise KeyboardInterrupt

    queue = ov.AsyncInferQueue(compiled, 2)
    transport.answer = interrupt
    with pytest.raises(KeyboardInterrupt):
        queue.start_async(ONES)
    queue.wait_all()
    transport.answer = None
    for _ in queue:
        queue.start_async(ONES)
    assert not queue.is_ready()


def test_a_wait_for_a_queue_can_be_interrupted_anywhere(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    steps = 0
    while True:
        queue = ov.AsyncInferQueue(compiled, 1)
        transport.answer = None
        queue.start_async(ONES)
        end = threading.Timer(0.002, finish, transport.executions[-1:])
        end.start()
        within = (PACKAGE, threading.__file__)
        # A condition's own wait puts it into words of its own that it was interrupted where it has given its lock away.
        with (
            suppress(KeyboardInterrupt, RuntimeError),
            Interrupt(KeyboardInterrupt, steps, is_answered=True, within=within) as interrupt,
        ):
            queue.wait_all()
        end.join()
        check_free(queue.wait_all, f"after {steps} steps nobody else can wait")
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 10
