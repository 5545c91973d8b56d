"""Which thread receives what comes on a stream: the reading thread or, for one brief wait after another, who waits."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable
from contextlib import suppress
from enum import Enum, auto
from queue import Empty, SimpleQueue

import pytest
from tests.client.interrupt import Interrupt
from tests.client.transport.endings import fail_if_called
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S, wait_until

import inferwire as ov
from inferwire.latch import Latch
from inferwire.transport.executions import WireBytes
from inferwire.transport.session import incoming
from inferwire.transport.session.incoming import LEAST_BRIEF, WINDOW_S, BrokenOff, Incoming
from inferwire.transport.session.stream_execution import StreamExecution

FOR_EVER_S = 60.0
ME = threading.get_ident


class End(Enum):
    """What ends the stream."""

    END = auto()


END = End.END


class LeftError(Exception):
    """Raised by what is left to another thread."""


class Line:
    """A stream's receiving side. What is put in `came` has come, or is raised.

    Attributes:
        now: The time, which passes only where the test says so.
        answered: The latches of what was submitted, by what answers it.
        pending: What has no answer.
        takers: Which thread took what.
        on_look: Called when a waiting thread looks whether anything has come.
        on_take: Called with what is taken.
    """

    def __init__(self, stand_by_s: float = FOR_EVER_S) -> None:
        self.now = 100.0
        self.came: SimpleQueue[bytes | Exception | End | None] = SimpleQueue()
        self.answered: dict[bytes, Latch] = {}
        self.pending: dict[Hashable, StreamExecution] = {}
        self.takers: list[tuple[bytes, int]] = []
        self.on_look: Callable[[], object] = lambda: None
        self.on_take: Callable[[bytes], object] = lambda message: None
        self.incoming = Incoming(
            self._receive(), self._has_come, self._take, self.pending, lambda: self.now, stand_by_s
        )
        self.pool = DaemonThreads()
        self.reading = self.pool.submit(self._run)

    def _run(self) -> None:
        self.reader = ME()
        self.incoming.run()

    def _has_come(self) -> bool:
        self.on_look()
        return not self.came.empty()

    def _receive(self) -> Generator[WireBytes | None]:
        while True:
            came = self.came.get()
            if came is END:
                return
            if isinstance(came, Exception):
                raise came
            yield came

    def _take(self, message: WireBytes) -> None:
        name = bytes(message)
        self.takers.append((name, ME()))
        try:
            self.on_take(name)
        except LeftError:
            return
        self.pending.pop(name)
        self.answered[name].set()

    def submit(self, name: bytes = b"answer") -> Latch:
        """Have an execution in flight."""
        self.pending[name] = StreamExecution((), fail_if_called)
        self.answered[name] = latch = Latch()
        return latch

    def attend(self, latch: Latch, began: float | None = None, timeout_s: float | None = None) -> bool:
        """Wait for the answer to an execution that was sent now, or when it `began`."""
        return self.incoming.attend(latch, self.now if began is None else began, timeout_s)

    def wait(self, takes_s: float = 0.0, sent_before_s: float = 0.0) -> int:
        """Wait for an answer that comes after so long, and tell which thread took it."""
        latch = self.submit()
        began = self.now
        self.now += sent_before_s
        waiting = threading.Event()

        def answer() -> None:
            assert waiting.wait(LIMIT_S)
            self.now += takes_s
            self.came.put(b"answer")

        with DaemonThreads() as beside:
            beside.submit(answer)
            self.on_look = waiting.set
            if not self.incoming.stands_by:
                waiting.set()
            assert self.attend(latch, began)
        return self.takers[-1][1]

    def stand_by(self) -> None:
        """Have brief waits until the reading thread stands by."""
        self.now += FOR_EVER_S
        for _ in range(LEAST_BRIEF + 1):
            assert self.wait() == self.reader
        self.wait()
        wait_until(lambda: self.incoming.stands_by)

    def comes_to_the_reader(self, name: bytes = b"other") -> bool:
        """Whether the reading thread takes what comes next."""
        latch = self.submit(name)
        self.came.put(name)
        return latch.wait(LIMIT_S) and self.takers[-1] == (name, self.reader)


@pytest.fixture
def line() -> Line:
    return Line()


def test_one_brief_wait_after_another_receives_its_answer_itself(line: Line) -> None:
    line.stand_by()
    for _ in range(3):
        assert line.wait(WINDOW_S / 2) == ME()
        assert line.incoming.stands_by


def test_where_waits_are_long_the_reading_thread_receives(line: Line) -> None:
    for _ in range(3 * LEAST_BRIEF):
        assert line.wait(WINDOW_S * 2) == line.reader


def test_where_other_work_is_done_before_the_wait_the_reading_thread_receives(line: Line) -> None:
    for _ in range(3 * LEAST_BRIEF):
        assert line.wait(sent_before_s=WINDOW_S * 2) == line.reader


def test_where_waits_are_seldom_the_reading_thread_receives(line: Line) -> None:
    for _ in range(3 * LEAST_BRIEF):
        line.now += FOR_EVER_S * 2
        assert line.wait() == line.reader


def test_who_has_looked_for_long_enough_leaves_it_to_the_reading_thread(line: Line) -> None:
    line.stand_by()
    latch = line.submit()

    def be_late() -> None:
        line.now += WINDOW_S
        line.on_look = lambda: None

    def answer_to_the_reader() -> None:
        wait_until(lambda: not line.incoming.stands_by)
        line.came.put(b"answer")

    line.on_look = be_late
    with DaemonThreads() as beside:
        beside.submit(answer_to_the_reader)
        line.attend(latch)
    assert line.takers[-1][1] == line.reader


def test_what_nobody_waits_for_comes_to_the_reading_thread(line: Line) -> None:
    line.stand_by()
    line.incoming.resume()
    assert line.comes_to_the_reader()


class Ticks(SimpleQueue[Empty | None]):
    """Where the reading thread waits while it stands by. Its time-outs come where the test says so.

    Attributes:
        gets: How often it has waited.
        timeout_s: For how long it is to wait.
    """

    def __init__(self) -> None:
        self.gets = 0
        self.timeout_s: float | None = None

    def get(self, block: bool = True, timeout: float | None = None) -> None:
        """Give what is put, or raise it."""
        del block
        self.gets += 1
        self.timeout_s = timeout
        got = super().get()
        if got is not None:
            raise got


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    ticks = Ticks()
    monkeypatch.setattr(incoming, "SimpleQueue", lambda: ticks)
    return ticks


def test_the_reading_thread_stands_by_for_no_longer_than_a_moment(ticks: Ticks) -> None:
    line = Line(stand_by_s=0.01)
    line.stand_by()
    ticks.put(Empty())
    assert line.comes_to_the_reader()
    assert not line.incoming.stands_by
    assert ticks.timeout_s == 0.01


def test_the_reading_thread_stands_by_for_as_long_as_threads_wait(ticks: Ticks) -> None:
    line = Line()
    line.stand_by()
    line.submit(b"in flight")
    for gets in range(2, 5):
        wait_until(lambda: ticks.gets == gets - 1)  # noqa: B023 - called here
        line.wait()
        ticks.put(Empty())
        wait_until(lambda: ticks.gets == gets)  # noqa: B023
        assert line.incoming.stands_by
    ticks.put(Empty())
    line.came.put(b"in flight")
    assert line.answered[b"in flight"].wait(LIMIT_S)
    assert not line.incoming.stands_by


def test_the_reading_thread_does_not_stand_by_while_others_are_in_flight(line: Line) -> None:
    line.now += FOR_EVER_S
    for _ in range(LEAST_BRIEF + 1):
        line.wait()
    other = line.submit(b"other")
    line.wait()
    line.came.put(b"other")
    assert other.wait(LIMIT_S)
    assert line.takers[-1] == (b"other", line.reader)


def test_of_two_in_flight_each_is_received_where_it_is_waited_for(line: Line) -> None:
    line.stand_by()
    for _ in range(3):
        first, second = line.submit(b"first"), line.submit(b"second")
        line.came.put(b"first")
        assert line.attend(first)
        line.came.put(b"second")
        assert line.attend(second)
        assert line.takers[-2:] == [(b"first", ME()), (b"second", ME())]
    assert line.incoming.stands_by


def test_those_in_flight_only_delay_that_the_reading_thread_stands_by(line: Line) -> None:
    line.now += FOR_EVER_S
    other = line.submit(b"other")
    for _ in range(2 * LEAST_BRIEF):
        assert line.wait() == line.reader
    line.came.put(b"other")
    assert other.wait(LIMIT_S)
    wait_until(lambda: line.incoming.stands_by)


def test_a_wait_with_a_time_out_takes_what_has_come(line: Line) -> None:
    line.stand_by()
    latch = line.submit()
    line.came.put(b"answer")
    assert line.attend(latch, timeout_s=0)
    assert line.takers[-1] == (b"answer", ME())
    assert line.incoming.stands_by


def test_a_wait_with_a_time_out_leaves_what_has_not_come_to_the_reading_thread(line: Line) -> None:
    line.stand_by()
    latch = line.submit()
    assert not line.attend(latch, timeout_s=0)
    line.came.put(b"answer")
    assert line.attend(latch, timeout_s=LIMIT_S)
    assert line.takers[-1] == (b"answer", line.reader)


def test_waits_with_a_time_out_do_not_have_the_reading_thread_stand_by(line: Line) -> None:
    for _ in range(3 * LEAST_BRIEF):
        latch = line.submit()
        line.came.put(b"answer")
        assert line.attend(latch, timeout_s=LIMIT_S)
        assert line.takers[-1] == (b"answer", line.reader)


@pytest.mark.parametrize("ends", [False, True])
def test_what_a_waiting_thread_leaves_the_reading_thread_takes(line: Line, *, ends: bool) -> None:
    def leave(name: bytes) -> None:
        line.on_take = lambda _: None
        line.incoming.leave(name)
        if ends:
            line.came.put(END)
        raise LeftError

    line.stand_by()
    latch = line.submit()
    line.on_take = leave
    line.came.put(b"answer")
    assert line.attend(latch)
    assert [name for name, _ in line.takers[-2:]] == [b"answer", b"answer"]
    assert line.takers[-1][1] == line.reader


def test_of_two_that_wait_one_receives_and_the_other_is_woken(line: Line) -> None:
    line.stand_by()
    first, second = line.submit(b"first"), line.submit(b"second")
    is_looking, may_go_on = threading.Event(), threading.Event()

    def look() -> None:
        is_looking.set()
        assert may_go_on.wait(LIMIT_S)

    line.on_look = look
    with DaemonThreads() as beside:
        attending = [beside.submit(line.attend, first)]
        assert is_looking.wait(LIMIT_S)
        attending.append(beside.submit(line.attend, second))
        wait_until(lambda: not line.incoming.stands_by)
        for name in (b"first", b"second"):
            line.came.put(name)
        may_go_on.set()
        for each in attending:
            each.result(LIMIT_S)
    assert [name for name, _ in line.takers[-2:]] == [b"first", b"second"]


def test_a_part_of_a_message_is_waited_for_no_longer_than_nothing(line: Line) -> None:
    line.stand_by()
    latch = line.submit()

    def have_a_part() -> None:
        line.on_look = be_late
        line.came.put(None)

    def be_late() -> None:
        line.now += WINDOW_S / 2

    line.on_look = have_a_part
    with DaemonThreads() as beside:
        attending = beside.submit(line.attend, latch)
        wait_until(lambda: not line.incoming.stands_by)
        line.came.put(b"answer")
        attending.result(LIMIT_S)
    assert line.takers[-1][1] == line.reader


@pytest.mark.parametrize("end", [ov.ServerUnavailable("gone"), ValueError("no message"), KeyError("no type"), END])
def test_what_ends_the_stream_is_for_the_reading_thread_to_tell(line: Line, end: Exception | End) -> None:
    line.stand_by()
    latch = line.submit()
    line.came.put(end)
    with DaemonThreads() as beside:
        attending = beside.submit(line.attend, latch)
        assert line.reading.exception(LIMIT_S) is (end if isinstance(end, Exception) else None)
        assert not attending.done()
        latch.set()
        attending.result(LIMIT_S)


def test_who_is_broken_off_as_it_takes_an_answer_ends_the_stream(line: Line) -> None:
    line.stand_by()
    latch, _ = line.submit(), line.submit(b"other")
    pending = list(line.pending.values())

    def break_off(name: bytes) -> None:
        del line.pending[name]
        raise KeyboardInterrupt

    line.on_take = break_off
    line.came.put(b"answer")
    with pytest.raises(KeyboardInterrupt):
        line.attend(latch)
    # As who catches it and waits again does.
    line.came.put(b"no more")
    assert not line.attend(latch, timeout_s=0)
    assert isinstance(line.reading.exception(LIMIT_S), BrokenOff)
    assert line.incoming.at_risk == pending


def test_an_exception_that_cannot_be_shown_ends_the_stream_too(line: Line) -> None:
    class HiddenError(Exception):
        def __repr__(self) -> str:
            raise self

    def break_off(name: bytes) -> None:
        raise HiddenError

    line.stand_by()
    latch = line.submit()
    line.on_take = break_off
    line.came.put(b"answer")
    with pytest.raises(HiddenError):
        line.attend(latch)
    line.incoming.resume()
    line.came.put(b"no more")
    assert isinstance(line.reading.exception(LIMIT_S), BrokenOff)


@pytest.mark.parametrize("error", [TimeoutError("too long"), ValueError("no"), KeyError("no"), ov.QueueFull("no")])
def test_whatever_a_signal_handler_raises_is_its_own(line: Line, error: Exception) -> None:
    def handle(*_: object) -> None:
        raise error

    line.stand_by()
    latch = line.submit()
    line.on_take = lambda _: signal.raise_signal(signal.SIGUSR1)
    line.came.put(b"answer")
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(type(error)) as raised:
            line.attend(latch)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert raised.value is error
    line.incoming.resume()
    assert isinstance(line.reading.exception(LIMIT_S), BrokenOff)


def test_who_takes_an_answer_knows_it(line: Line) -> None:
    line.stand_by()
    assert not line.incoming.is_here()
    seen: list[tuple[bool, bool]] = []
    line.on_take = lambda _: seen.append((line.incoming.is_here(), line.incoming.is_attended()))
    line.wait()
    line.incoming.resume()
    assert line.comes_to_the_reader()
    assert seen == [(True, True), (True, False)]
    assert not line.incoming.is_here()


def test_it_can_be_interrupted_anywhere_and_others_get_their_answers_or_hear_of_the_end() -> None:
    steps, ended = 0, 0
    while True:
        line = Line()
        line.stand_by()
        latch = line.submit()
        line.on_look = lambda: None
        line.came.put(b"answer")
        with (
            suppress(KeyboardInterrupt),
            Interrupt(KeyboardInterrupt, steps, is_answered=True, within=(incoming.__file__,)) as interrupt,
        ):
            line.attend(latch)
        other = line.submit(b"other")
        # As the cancelling of what was interrupted does, or the submitting of the other.
        line.incoming.resume()
        line.came.put(b"other")
        wait_until(lambda: other.is_set() or line.reading.done())  # noqa: B023 - called here
        ended += line.reading.done()
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 5
    assert 0 < ended < steps


def test_garbage_collection_may_cancel_others_at_any_point(line: Line) -> None:
    others = deque[int]()

    def cancel_one(phase: str, info: object) -> None:
        if others:
            line.pending.pop(others.pop(), None)

    line.stand_by()
    before = gc.get_threshold()
    gc.callbacks.append(cancel_one)
    try:
        for threshold in range(1, 12):
            latch = line.submit()
            line.pending.update({number: StreamExecution((), fail_if_called) for number in range(99)})
            line.came.put(b"answer")
            others.extend(range(99))
            gc.set_threshold(threshold)
            assert line.attend(latch)
            gc.set_threshold(*before)
            others.clear()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(cancel_one)


def test_on_a_single_core_the_reading_thread_receives(monkeypatch: pytest.MonkeyPatch) -> None:
    def cores(_: int) -> frozenset[int]:
        return frozenset({0})

    monkeypatch.setattr(os, "sched_getaffinity", cores)
    line = Line()
    for _ in range(3 * LEAST_BRIEF):
        assert line.wait() == line.reader


def test_the_repr_says_who_receives(line: Line) -> None:
    assert repr(line.incoming) == "<Incoming: reads, 0 brief waits>"
    line.stand_by()
    assert repr(line.incoming).startswith("<Incoming: stands by")
