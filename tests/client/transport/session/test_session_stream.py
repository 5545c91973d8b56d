"""A session's stream over a carrier that does what the test says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.client.interrupt import Interrupt
from tests.client.transport.endings import Endings, fail_if_called
from tests.client.transport.session.fake_carrier import FakeCarrier, holds_up_nobody
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport.executions import Outcome, OutputBytes
from inferwire.transport.session import gathering, outgoing, session_stream
from inferwire.transport.session.carriers import Pieces
from inferwire.transport.session.outgoing import AT_ONCE_BYTES
from inferwire.transport.session.session_stream import SessionStream
from inferwire.transport.session.stream_execution import EncodedHeader, StreamExecution
from inferwire_proto.inferwire.v1.inference_pb2 import (
    ExecutionResult,
    SessionHello,
    SessionRequest,
    SessionResponse,
)


class Interrupted(float):
    """A time-out of which the wait is interrupted, as by Ctrl-C."""

    def __gt__(self, other: float) -> bool:
        raise KeyboardInterrupt


@pytest.fixture
def carrier() -> FakeCarrier:
    return FakeCarrier()


@pytest.fixture
def stream(carrier: FakeCarrier) -> SessionStream:
    return SessionStream(carrier, "fake", SessionHello(), LIMIT_S)


def test_one_that_finds_no_thread_to_read_it_leaves_nothing_open(carrier: FakeCarrier) -> None:
    usual = threading.stack_size(1 << 46)
    try:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            SessionStream(carrier, "fake", SessionHello(), LIMIT_S)
    finally:
        threading.stack_size(usual)
    assert carrier.is_cancelled
    assert list(carrier.messages)[1:] == [], "the thread that sends is let go after the hello"


def test_one_that_is_interrupted_as_it_is_greeted_leaves_nothing_open() -> None:
    carrier = FakeCarrier()
    carrier.incoming.get()
    with pytest.raises(KeyboardInterrupt):
        SessionStream(carrier, "fake", SessionHello(), Interrupted(LIMIT_S))
    carrier.incoming.put(OSError("the end"))
    assert carrier.is_cancelled
    assert list(carrier.messages)[1:] == [], "the thread that sends is let go after the hello"


@pytest.mark.parametrize("raised", [MemoryError("no room"), RuntimeError("can't start new thread"), SystemExit(1)])
def test_whatever_ends_the_reading_thread_ends_the_stream(
    carrier: FakeCarrier, stream: SessionStream, raised: BaseException
) -> None:
    outcomes = Endings()
    stream.submit(StreamExecution((), outcomes.take), EncodedHeader(b""), 0)
    carrier.incoming.put(raised)
    error = outcomes.get(timeout=LIMIT_S).error
    assert isinstance(error, ov.InferwireError)
    assert (
        str(error)
        == f"reading what the server at fake sends failed: {raised!r}; where no memory is short, this is a bug"
    )
    assert not stream.is_open
    assert carrier.is_cancelled


def test_one_that_does_not_take_the_streams_end_keeps_it_from_nobody(
    carrier: FakeCarrier, stream: SessionStream, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = Endings()

    def raising(outcome: Outcome, data: OutputBytes) -> None:
        outcomes.take(outcome, data)
        raise MemoryError("no room")

    for _ in range(2):
        stream.submit(StreamExecution((), raising), EncodedHeader(b""), 0)
    carrier.incoming.put(ov.ServerUnavailable("gone"))
    assert [str(outcomes.get(timeout=LIMIT_S).error) for _ in range(2)] == ["gone", "gone"]
    stream.close(LIMIT_S)
    assert "could not be told" in caplog.text


def test_an_answer_that_one_execution_cannot_take_leaves_the_others_of_its_message_theirs(
    carrier: FakeCarrier, stream: SessionStream
) -> None:
    bad, good = Endings(), Endings()

    def taking_errors_alone(outcome: Outcome, data: OutputBytes) -> None:
        if outcome.error is None:
            raise MemoryError("no room")
        bad.take(outcome, data)

    first, *others = [StreamExecution((), deliver) for deliver in (taking_errors_alone, good.take, good.take)]
    for execution in (first, *others):
        stream.submit(execution, EncodedHeader(b""), 0)
    beside_it, behind_it = others
    results = [ExecutionResult(ids=[first.id, beside_it.id]), ExecutionResult(ids=[behind_it.id])]
    carrier.incoming.put(SessionResponse(results=results).SerializeToString())
    assert str(bad.get(timeout=LIMIT_S).error) == "the answer came and could not be taken: MemoryError('no room')"
    assert [good.get(timeout=LIMIT_S).error for _ in others] == [None, None]
    assert stream.is_open


def test_what_was_cancelled_before_it_was_sent_holds_up_nobody(carrier: FakeCarrier, stream: SessionStream) -> None:
    execution, other = StreamExecution((), fail_if_called), StreamExecution((), fail_if_called)
    stream.submit(execution, EncodedHeader(b""), 0)
    stream.submit(other, EncodedHeader(b""), 0)
    stream.cancel(execution)
    assert next(carrier.messages)
    sent = SessionRequest.FromString(b"".join(next(carrier.messages)))
    assert [id_ for each in sent.executions for id_ in each.ids] == [other.id]
    assert holds_up_nobody(stream)


def test_what_may_travel_in_a_stack_holds_up_nobody_when_it_is_cancelled(stream: SessionStream) -> None:
    execution = StreamExecution((), fail_if_called)
    stream.submit(execution, EncodedHeader(b"", most_stacked=2), 0)
    stream.cancel(execution)
    assert holds_up_nobody(stream)


def test_what_is_cancelled_just_as_it_is_sent_on_a_stream_that_has_ended_holds_up_nobody() -> None:
    class GivenUp(StreamExecution):
        @property
        def byte_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
            """Have another thread cancel it between two steps of its sending."""
            stream.cancel(self)
            return 0

        @byte_size.setter
        def byte_size(self, byte_size: int) -> None:
            """Leave it so."""

    carrier = FakeCarrier(lambda message, went: None)
    stream = SessionStream(carrier, "fake", SessionHello(), LIMIT_S)
    stream.close(LIMIT_S)
    stream.submit(GivenUp((), fail_if_called), EncodedHeader(b""), 0)
    assert holds_up_nobody(stream)


def test_who_takes_an_answer_does_not_wait_for_what_was_cancelled(carrier: FakeCarrier, stream: SessionStream) -> None:
    """The thread that reads would wait for what it alone can read."""
    taken = Endings()

    def take(outcome: Outcome, data: OutputBytes) -> None:
        stream.await_cancelled()
        taken.take(outcome, data)

    cancelled, execution = StreamExecution((), fail_if_called), StreamExecution((), take)
    for each in (cancelled, execution):
        stream.submit(each, EncodedHeader(b""), 0)
    assert next(carrier.messages)
    assert next(carrier.messages)
    stream.cancel(cancelled)
    results = [ExecutionResult(ids=[each.id]) for each in (execution, cancelled)]
    carrier.incoming.put(SessionResponse(results=results).SerializeToString())
    assert taken.get(timeout=LIMIT_S).error is None
    assert holds_up_nobody(stream)


def test_what_one_thread_sends_is_overtaken_neither_by_its_cancelling_nor_by_what_begins_after_that() -> None:
    sent: list[SessionRequest] = []

    def send(message: Pieces, went: list[int]) -> None:
        """Send a message, once another thread has given up what is in the first, and begun anew."""
        if not sent and begin_anew:
            begin_anew.pop()()
        sent.append(SessionRequest.FromString(b"".join(message)))
        went.append(1)

    def cancel_and_submit() -> None:
        stream.cancel(cancelled)
        stream.submit(anew, EncodedHeader(b""), 0)

    begin_anew = [cancel_and_submit]
    carrier = FakeCarrier(send)
    stream = SessionStream(carrier, "fake", SessionHello(), LIMIT_S)
    cancelled, other, anew = (StreamExecution((), fail_if_called) for _ in range(3))
    # Too large for whoever submits it, it waits, and is sent by whoever submits the next.
    stream.submit(cancelled, EncodedHeader(b""), AT_ONCE_BYTES + 1)
    stream.submit(other, EncodedHeader(b""), 0)
    stream.finish()
    sent += (SessionRequest.FromString(b"".join(message)) for message in list(carrier.messages)[1:])
    assert [([id_ for each in message.executions for id_ in each.ids], list(message.cancels)) for message in sent] == [
        ([cancelled.id], []),
        ([other.id, anew.id], [cancelled.id]),
    ]


def interrupted(message: Pieces, went: list[int]) -> None:
    """Send nothing."""
    raise KeyboardInterrupt


def interrupted_late(message: Pieces, went: list[int]) -> None:
    """Send some of it, and leave the rest."""
    went.append(1)
    raise KeyboardInterrupt


def test_whoever_is_interrupted_before_others_executions_went_ends_the_stream_and_takes_its_own_back() -> None:
    carrier = FakeCarrier(interrupted)
    stream = SessionStream(carrier, "fake", SessionHello(), LIMIT_S)
    outcomes = Endings()
    # Too large for whoever submits it, it waits, and is sent by whoever submits the next.
    stream.submit(StreamExecution((), outcomes.take), EncodedHeader(b""), AT_ONCE_BYTES + 1)
    with pytest.raises(KeyboardInterrupt):
        stream.submit(StreamExecution((), fail_if_called), EncodedHeader(b""), 0)
    assert carrier.is_cancelled
    assert isinstance(outcomes.get(timeout=LIMIT_S).error, ov.ServerUnavailable)
    stream.close(LIMIT_S)


@pytest.mark.parametrize("send", [interrupted, interrupted_late])
@pytest.mark.parametrize("most_stacked", [1, 2])
def test_whoever_is_interrupted_where_nothing_of_others_is_lost_takes_its_own_back_alone(
    send: Callable[[Pieces, list[int]], None], most_stacked: int
) -> None:
    carrier = FakeCarrier(send)
    stream = SessionStream(carrier, "fake", SessionHello(), LIMIT_S)
    execution = StreamExecution((), fail_if_called)
    with pytest.raises(KeyboardInterrupt):
        stream.submit(execution, EncodedHeader(b"", most_stacked), 0)
    assert not carrier.is_cancelled
    next(carrier.messages)
    (message,) = next(carrier.messages)
    assert SessionRequest.FromString(bytes(message)).cancels == [execution.id]
    carrier.incoming.put(SessionResponse(results=[ExecutionResult(ids=[execution.id])]).SerializeToString())
    assert holds_up_nobody(stream)
    stream.close(LIMIT_S)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("most_stacked", [1, 2])
def test_whoever_is_interrupted_before_it_takes_anything_takes_its_own_back_alone(
    error: type[BaseException], most_stacked: int
) -> None:
    steps, within = 0, (session_stream.__file__, outgoing.__file__, gathering.__file__)
    while True:
        carrier = FakeCarrier()
        stream = SessionStream(carrier, "fake", SessionHello(), LIMIT_S)
        outcomes = Endings()
        other, own = StreamExecution((), outcomes.take), StreamExecution((), Endings().take)
        stream.submit(other, EncodedHeader(b""), 0)
        with suppress(error), Interrupt(error, steps, is_answered=True, within=within) as interrupt:
            stream.submit(own, EncodedHeader(b"", most_stacked), 0)
        assert not carrier.is_cancelled, f"after {steps} steps"
        next(carrier.messages)
        message = SessionRequest.FromString(b"".join(next(carrier.messages)))
        sent = [id_ for each in message.executions for id_ in each.ids]
        assert sent == ([other.id] if message.cancels or not own.id else [other.id, own.id])
        carrier.incoming.put(SessionResponse(results=[ExecutionResult(ids=sent)]).SerializeToString())
        assert outcomes.get(timeout=LIMIT_S).error is None
        assert holds_up_nobody(stream), f"after {steps} steps"
        stream.close(LIMIT_S)
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 5


def test_whoever_is_interrupted_as_others_executions_went_leaves_them_what_they_wait_for() -> None:
    carrier = FakeCarrier(interrupted_late)
    stream = SessionStream(carrier, "fake", SessionHello(), LIMIT_S)
    outcomes = Endings()
    execution = StreamExecution((), outcomes.take)
    stream.submit(execution, EncodedHeader(b""), AT_ONCE_BYTES + 1)
    with pytest.raises(KeyboardInterrupt):
        stream.submit(StreamExecution((), fail_if_called), EncodedHeader(b""), 0)
    assert not carrier.is_cancelled
    carrier.incoming.put(SessionResponse(results=[ExecutionResult(ids=[execution.id])]).SerializeToString())
    assert outcomes.get(timeout=LIMIT_S).error is None
    stream.close(LIMIT_S)
