"""A session's stream whose reading thread stands by: whoever waits for an answer receives what comes."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

import pytest
from tests.client.interrupt import Interrupt
from tests.client.transport.endings import Endings, fail_if_called
from tests.client.transport.session.fake_carrier import FakeCarrier, holds_up_nobody
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S, wait_until

import inferwire as ov
from inferwire import latch
from inferwire.latch import Latch
from inferwire.transport.executions import Outcome, OutputBytes
from inferwire.transport.session import session_stream
from inferwire.transport.session.incoming import LEAST_BRIEF, Incoming
from inferwire.transport.session.session_stream import SessionStream
from inferwire.transport.session.stream_execution import EncodedHeader, StreamExecution
from inferwire_proto.inferwire.v1.inference_pb2 import ExecutionResult, SessionHello, SessionResponse

FOR_EVER_S = 60.0
NOW = 100.0
HEADER = EncodedHeader(b"")


class Awaited(StreamExecution):
    """An execution that a thread waits for.

    Attributes:
        answered: Set once it is delivered.
        taker: The thread that has delivered it.
    """

    is_awaited = True
    taker = 0

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        super().__init__((), self._take)
        self.answered = Latch()
        self._then = then

    def _take(self, outcome: Outcome, data: OutputBytes) -> None:
        del outcome, data
        self.taker = threading.get_ident()
        self._then()
        self.answered.set()


class Rig:
    """A stream whose reading thread stands by until it is called, and the carrier.

    Attributes:
        on_look: Called when a waiting thread looks whether anything has come.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[Incoming] = []

        def make(*parts: object) -> Incoming:
            """Time stands still, so that all waits are brief, and no look for an answer is the last."""
            timeless = partial(Incoming, clock=lambda: NOW, stand_by_s=FOR_EVER_S)
            made.append(timeless(*parts))  # pyright: ignore[reportArgumentType]
            return made[0]

        monkeypatch.setattr(session_stream, "Incoming", make)
        self.carrier = FakeCarrier()
        self.carrier.has_come = self._has_come
        self.on_look: Callable[[], object] = lambda: None
        self.stream = SessionStream(self.carrier, "fake", SessionHello(), LIMIT_S)
        (self.incoming,) = made
        wait_until(self._stands_by)

    def _stands_by(self) -> bool:
        self.infer(Awaited())
        return self.incoming.stands_by

    def _has_come(self) -> bool:
        self.on_look()
        return not self.carrier.incoming.empty()

    def infer(self, execution: Awaited) -> None:
        """Submit an execution and wait for its answer, which comes."""
        self.stream.submit(execution, HEADER, 0)
        self.answer(execution)
        self.stream.attend(execution.answered, NOW)

    def answer(self, *executions: StreamExecution) -> None:
        """Have answers come, in one message."""
        results = [ExecutionResult(ids=[each.id]) for each in executions]
        self.carrier.incoming.put(SessionResponse(results=results).SerializeToString())

    def submit(self) -> tuple[StreamExecution, Endings]:
        """Submit an execution that a thread will wait for."""
        endings = Endings()
        execution = StreamExecution((), endings.take)
        execution.is_awaited = True
        self.stream.submit(execution, HEADER, 0)
        return execution, endings


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def test_whoever_waits_takes_its_answer(rig: Rig) -> None:
    for _ in range(LEAST_BRIEF):
        execution = Awaited()
        rig.infer(execution)
        assert execution.taker == threading.get_ident()
    assert rig.incoming.stands_by


def test_what_nobody_waits_for_at_once_is_read(rig: Rig) -> None:
    endings = Endings()
    execution = StreamExecution((), endings.take)
    rig.stream.submit(execution, HEADER, 0)
    rig.answer(execution)
    assert endings.get(timeout=LIMIT_S).error is None


def test_what_comes_with_an_answer_that_nobody_waits_for_is_left_to_the_reading_thread(rig: Rig) -> None:
    takers: list[int] = []
    other = StreamExecution((), lambda outcome, data: takers.append(threading.get_ident()))
    own = Awaited(lambda: takers.append(own.taker))

    def answer_both() -> None:
        rig.on_look = lambda: None
        rig.stream.submit(other, HEADER, 0)
        rig.answer(own, other)

    rig.on_look = answer_both
    rig.stream.submit(own, HEADER, 0)
    assert rig.stream.attend(own.answered, NOW)
    # It takes the message as a whole.
    rig.stream.close(LIMIT_S)
    assert len(takers) == 2
    assert threading.get_ident() not in takers


def test_what_was_cancelled_is_nobodys_when_its_answer_comes(rig: Rig) -> None:
    cancelled, own = Awaited(), Awaited()

    def answer_both() -> None:
        rig.on_look = lambda: None
        rig.stream.cancel(cancelled)
        rig.answer(own, cancelled)

    for execution in (cancelled, own):
        rig.stream.submit(execution, HEADER, 0)
    rig.on_look = answer_both
    assert rig.stream.attend(own.answered, NOW)
    assert own.taker == threading.get_ident()
    assert not cancelled.answered.is_set()
    assert rig.stream.is_open


def test_a_wait_may_have_a_time_out(rig: Rig) -> None:
    execution = Awaited()
    rig.stream.submit(execution, HEADER, 0)
    assert not rig.stream.attend(execution.answered, NOW, 0)
    rig.answer(execution)
    assert rig.stream.attend(execution.answered, NOW, LIMIT_S)


def test_the_answer_to_what_was_cancelled_is_read(rig: Rig) -> None:
    execution = StreamExecution((), fail_if_called)
    execution.is_awaited = True
    rig.stream.submit(execution, HEADER, 0)
    with DaemonThreads() as beside:
        waiting = beside.submit(holds_up_nobody, rig.stream)
        rig.stream.cancel(execution)
        rig.answer(execution)
        assert waiting.result(LIMIT_S)
    assert holds_up_nobody(rig.stream)


def test_it_is_closed_at_once(rig: Rig) -> None:
    rig.stream.close(LIMIT_S)
    assert not rig.stream.is_open


def test_who_takes_answers_does_not_wait_for_what_it_alone_could_take(rig: Rig) -> None:
    cancelled, _ = rig.submit()

    def cancel_and_wait() -> None:
        rig.stream.cancel(cancelled)
        rig.stream.await_cancelled()

    execution = Awaited(cancel_and_wait)
    with DaemonThreads() as beside:
        beside.submit(rig.infer, execution).result(LIMIT_S)
    rig.answer(cancelled)
    assert holds_up_nobody(rig.stream)


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), TimeoutError("a handler's")])
def test_whoever_is_interrupted_as_it_takes_answers_ends_the_stream_for_all(rig: Rig, raised: BaseException) -> None:
    def interrupt(outcome: Outcome, data: OutputBytes) -> None:
        if outcome.error is None:
            raise raised
        first.take(outcome, data)

    first, second, own = Endings(), Endings(), Awaited()
    others = [StreamExecution((), deliver) for deliver in (interrupt, second.take)]
    for other in others:
        other.is_awaited = True
        rig.stream.submit(other, HEADER, 0)
    rig.stream.submit(own, HEADER, 0)
    rig.answer(*others, own)
    with pytest.raises(type(raised)):
        rig.stream.attend(own.answered, NOW)
    rig.stream.cancel(own)
    for endings in (first, second):
        error = endings.get(timeout=LIMIT_S).error
        assert isinstance(error, ov.ServerUnavailable)
        assert f"the receiving of an answer was broken off by {raised!r}" in str(error)
    assert rig.carrier.is_cancelled
    assert not rig.stream.is_open


def test_whoever_is_interrupted_as_the_answer_to_what_was_cancelled_comes_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = threading.Semaphore(0)

    class Waited(Latch):
        """Tells that it is waited for."""

        def wait(self, timeout_s: float | None = None) -> bool:
            waits.release()
            return super().wait(timeout_s)

    monkeypatch.setattr(session_stream, "Latch", Waited)
    beside, steps = DaemonThreads(), 0
    while True:
        rig = Rig(monkeypatch)
        cancelled, own = Awaited(), Awaited()
        waiting: list[Future[None]] = []

        def answer_both(
            rig: Rig = rig, cancelled: Awaited = cancelled, own: Awaited = own, waiting: list[Future[None]] = waiting
        ) -> None:
            rig.on_look = lambda: None
            beside.submit(rig.stream.cancel, cancelled).result(LIMIT_S)
            waiting.append(beside.submit(rig.stream.await_cancelled))
            assert waits.acquire(timeout=LIMIT_S)
            rig.answer(own, cancelled)

        for execution in (cancelled, own):
            rig.stream.submit(execution, HEADER, 0)
        rig.on_look = answer_both
        within = (session_stream.__file__, latch.__file__)
        with (
            suppress(KeyboardInterrupt),
            Interrupt(KeyboardInterrupt, steps, is_answered=True, within=within) as interrupt,
        ):
            rig.stream.attend(own.answered, NOW)
        for each in waiting:
            each.result(LIMIT_S)
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 5


def test_one_that_has_ended_is_freed_without_the_garbage_collector(rig: Rig) -> None:
    rig.stream.close(LIMIT_S)
    # As the writing thread does.
    list(rig.carrier.messages)
    gone = weakref.ref(rig.stream)
    gc.disable()
    try:
        del rig.stream
        assert gone() is None
    finally:
        gc.enable()
