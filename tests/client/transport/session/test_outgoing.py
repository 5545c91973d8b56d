"""What goes into one message: what is there, stacked where it may be, and held back only while that costs nobody."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from threading import Lock
from typing import Any

import pytest
from tests.client.interrupt import Interrupt
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S, wait_until

from inferwire.transport.executions import Outcome, OutputBytes, Timings
from inferwire.transport.session import outgoing
from inferwire.transport.session.gathering import LONGEST_HOLD_S, MOST_BYTES, MOST_EXECUTIONS, Gathering, Shipment
from inferwire.transport.session.outgoing import AT_ONCE_BYTES, Outgoing
from inferwire.transport.session.stream_execution import EncodedHeader, StreamExecution, count_answers


def nobody(outcome: Outcome, data: OutputBytes) -> None:
    """Take what nobody waits for."""


class Rig:
    """An outgoing queue whose clock stands still until it is moved, and what was submitted to it."""

    def __init__(self, longest_hold_s: float = 1000.0) -> None:
        self.now = 0.0
        self.wanted: dict[int, StreamExecution] = {}
        self.unsent: list[int] = []
        self.gathering = Gathering(self.wanted, self.unsent.append, lambda: self.now, longest_hold_s)
        self.outgoing = Outgoing(self.gathering)
        self._ids = count(1)

    def put(self, header: EncodedHeader, byte_size: int = 1) -> StreamExecution:
        execution = self.make(header, byte_size)
        if self.outgoing.put(execution):
            self.outgoing.wake()
        return execution

    def make(self, header: EncodedHeader, byte_size: int = 1) -> StreamExecution:
        """Make an execution that somebody wants."""
        execution = StreamExecution([], nobody)
        execution.id, execution.encoded, execution.byte_size = next(self._ids), header, byte_size
        self.wanted[execution.id] = execution
        return execution

    def drop(self, execution: StreamExecution) -> None:
        del self.wanted[execution.id]
        self.outgoing.withdraw(execution)

    def answer(self, *executions: StreamExecution, inference_ms: float = 0.1, wire_ms: float = 1.0) -> None:
        """Answer executions after some time."""
        timings = Timings(inference_ms=inference_ms)
        for execution in executions:
            del self.wanted[execution.id]
            came_at = execution.sent_at + wire_ms / 1000
            count_answers([execution], Outcome(timings=timings, came_at=came_at))
        self.outgoing.answers_came()

    def taken(self) -> list[list[int]]:
        """Take what is due: there has to be something."""
        return ids(self.outgoing.take())

    def under_way(self, header: EncodedHeader, number: int, inference_ms: float = 0.1) -> list[StreamExecution]:
        """Have so many executions under way, of a header of which one was answered before."""
        first = self.put(header)
        self.outgoing.take()
        self.answer(first, inference_ms=inference_ms)
        executions = [self.put(header) for _ in range(number)]
        # Each is as large as a message may be, so that none waits for the others.
        most_bytes, self.gathering.most_bytes = self.gathering.most_bytes, 0
        for _ in executions:
            self.outgoing.take()
        self.gathering.most_bytes = most_bytes
        return executions


def ids(batch: Shipment) -> list[list[int]]:
    return [[execution.id for execution in stack] for stack in batch.stacks]


def stackable(most: int = 100) -> EncodedHeader:
    return EncodedHeader(b"", most)


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def pool() -> DaemonThreads:
    return DaemonThreads()


def sleeping(rig: Rig, pool: DaemonThreads) -> Future[Shipment]:
    """Take on another thread, which finds nothing due."""
    future = pool.submit(rig.outgoing.take)
    wait_until(lambda: rig.outgoing.is_asleep or future.done())
    assert not future.done(), "it finds something"
    return future


def test_what_may_not_be_stacked_goes_by_itself_as_many_in_a_message_as_there_are(rig: Rig) -> None:
    header = EncodedHeader(b"")
    for _ in range(MOST_EXECUTIONS + 2):
        rig.put(header)
    assert rig.taken() == [[number] for number in range(1, MOST_EXECUTIONS + 1)]
    assert rig.taken() == [[MOST_EXECUTIONS + 1], [MOST_EXECUTIONS + 2]]


def test_what_piled_up_travels_as_stacks_of_one_header_and_no_more_than_the_model_takes(rig: Rig) -> None:
    one, other = stackable(3), stackable(3)
    for header in (one, other, one, one, one):
        rig.put(header)
    assert rig.taken() == [[1, 3, 4], [5], [2]]


def test_a_message_has_no_more_of_them_than_a_server_takes_however_small_they_are(rig: Rig) -> None:
    header = stackable()
    rig.under_way(header, 100)
    for _ in range(200_000):
        rig.put(header, 0)
    assert 10_000 < sum(map(len, rig.taken())) <= 65536


def test_of_two_pictures_neither_has_to_wait_until_the_other_has_come(rig: Rig) -> None:
    header = EncodedHeader(b"")
    for _ in range(2):
        rig.put(header, 3 * 224 * 224 * 4)
    assert rig.taken() == [[1]]
    assert rig.taken() == [[2]]


def test_a_lone_one_never_waits(rig: Rig) -> None:
    header = stackable()
    rig.under_way(header, 0)
    for number in range(2, 5):
        execution = rig.put(header)
        assert rig.taken() == [[number]]
        rig.answer(execution)


def test_tiny_ones_wait_until_there_are_as_many_as_are_under_way(rig: Rig, pool: DaemonThreads) -> None:
    header = stackable()
    rig.under_way(header, 3)
    batch = sleeping(rig, pool)
    for _ in range(2):
        rig.put(header)
    assert not batch.done()
    rig.put(header)
    assert ids(batch.result(LIMIT_S)) == [[5, 6, 7]]


def test_of_what_came_at_once_one_half_goes_while_the_other_waits(rig: Rig, pool: DaemonThreads) -> None:
    header = stackable()
    (lone,) = rig.under_way(header, 1)
    executions = [rig.put(header) for _ in range(15)]
    assert rig.taken() == [[execution.id for execution in executions[:8]]]
    batch = sleeping(rig, pool)
    rig.answer(lone)
    assert not batch.done()
    rig.answer(executions[0])
    assert ids(batch.result(LIMIT_S)) == [[execution.id for execution in executions[8:]]]


def test_what_is_not_worth_waiting_for_goes_as_a_whole(rig: Rig) -> None:
    header = stackable()
    rig.under_way(header, 1, inference_ms=20.0)
    executions = [rig.put(header) for _ in range(15)]
    assert rig.taken() == [[execution.id for execution in executions]]


def put_and_take(rig: Rig, header: EncodedHeader, byte_size: int = 1) -> list[list[int]] | None:
    """Submit an execution, and give what whoever does is to send."""
    return taken_with(rig, rig.make(header, byte_size))


def taken_with(rig: Rig, execution: StreamExecution) -> list[list[int]] | None:
    sent: list[Shipment] = []
    if rig.outgoing.put(execution):
        rig.outgoing.send(execution, sent.append)
    return ids(*sent) if sent else None


def test_one_after_the_other_they_are_sent_by_whoever_submits_them(rig: Rig, pool: DaemonThreads) -> None:
    batch = sleeping(rig, pool)
    for header in (stackable(), EncodedHeader(b"")):
        for _ in range(3):
            execution = rig.make(header)
            assert taken_with(rig, execution) == [[execution.id]]
            rig.answer(execution)
    assert not batch.done()
    rig.outgoing.end()
    assert ids(batch.result(LIMIT_S)) == []


def test_a_picture_is_sent_by_whoever_submits_it(rig: Rig, pool: DaemonThreads) -> None:
    batch = sleeping(rig, pool)
    assert put_and_take(rig, stackable(), 3 * 224 * 224 * 4) == [[1]]
    assert not batch.done()
    rig.outgoing.end()
    assert ids(batch.result(LIMIT_S)) == []


def test_whoever_makes_a_message_due_takes_it(rig: Rig, pool: DaemonThreads) -> None:
    header = stackable()
    rig.under_way(header, 3)
    rig.put(header)
    batch = sleeping(rig, pool)
    assert put_and_take(rig, header) is None
    assert put_and_take(rig, header) == [[5, 6, 7]]
    assert not batch.done()
    rig.outgoing.end()
    assert ids(batch.result(LIMIT_S)) == []


def test_a_thread_that_waited_for_nothing_looks_after_what_now_waits(pool: DaemonThreads) -> None:
    rig = Rig(LONGEST_HOLD_S)
    header = stackable()
    rig.under_way(header, 3)
    batch = sleeping(rig, pool)
    assert not put_and_take(rig, header)
    rig.now += LONGEST_HOLD_S
    assert ids(batch.result(LIMIT_S)) == [[5]]


def test_a_thread_that_looked_after_what_waited_lately_is_not_woken_for_the_next(rig: Rig, pool: DaemonThreads) -> None:
    header = stackable()
    rig.under_way(header, 3)
    batch = sleeping(rig, pool)
    assert put_and_take(rig, header) is None
    assert rig.outgoing.is_asleep
    rig.outgoing.end()
    assert ids(batch.result(LIMIT_S)) == [[5]]


def test_while_the_thread_sends_it_takes_what_is_put(rig: Rig) -> None:
    rig.put(stackable())
    assert rig.taken() == [[1]]
    assert put_and_take(rig, stackable()) is None
    assert rig.taken() == [[2]]


def test_what_the_thread_has_taken_meanwhile_goes_before_what_is_put_behind_it(rig: Rig) -> None:
    class TakenMeanwhile(StreamExecution):
        @property
        def byte_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
            """Have the thread take it, and another put behind it, once it was looked at."""
            if self.id in rig.wanted and rig.gathering.new:
                taken.append(rig.taken())
                del rig.wanted[self.id]
                rig.put(stackable())
            return 1

    taken: list[list[list[int]]] = []
    execution = TakenMeanwhile([], nobody)
    execution.id, execution.encoded = 100, stackable()
    rig.wanted[execution.id] = execution
    assert taken_with(rig, execution) is None
    assert [*taken, rig.taken()] == [[[100]], [[1]]]


def test_nobody_takes_what_is_put_just_as_the_thread_has_taken_what_is_before_it(rig: Rig) -> None:
    class Turn:
        """Taken in turn, with something put as soon as it is free again."""

        def __init__(self) -> None:
            self._lock, self._is_next = Lock(), True

        def __enter__(self) -> None:
            assert self._lock.acquire(timeout=LIMIT_S)

        def __exit__(self, *exc_info: object) -> None:
            self._lock.release()
            if self._is_next:
                self._is_next = False
                assert put_and_take(rig, stackable()) is None

        def locked(self) -> bool:
            return self._lock.locked()

    outgoing: Any = rig.outgoing
    outgoing._turn = Turn()
    rig.put(stackable())
    assert [rig.taken(), rig.taken()] == [[[1]], [[2]]]


def test_what_is_large_together_is_left_to_the_thread(rig: Rig, pool: DaemonThreads) -> None:
    header = stackable()
    rig.under_way(header, 2)
    rig.put(header, MOST_BYTES // 2)
    batch = sleeping(rig, pool)
    assert put_and_take(rig, header, AT_ONCE_BYTES - MOST_BYTES // 2) is None
    assert ids(batch.result(LIMIT_S)) == [[4, 5]]


def test_what_is_large_is_left_to_the_thread(rig: Rig, pool: DaemonThreads) -> None:
    batch = sleeping(rig, pool)
    assert put_and_take(rig, stackable(), AT_ONCE_BYTES + 1) is None
    assert ids(batch.result(LIMIT_S)) == [[1]]


def test_where_all_are_back_as_many_are_due_as_went_last(rig: Rig, pool: DaemonThreads) -> None:
    header = stackable()
    together = burst(rig, header)
    rig.answer(*together)
    batch = sleeping(rig, pool)
    rig.outgoing.is_asleep = False  # as once it is woken, and has not come to it yet
    assert [put_and_take(rig, header) for _ in range(4)] == [None, [[6, 7]], None, [[8, 9]]]
    rig.outgoing.is_asleep = True
    rig.outgoing.end()
    assert batch.result(LIMIT_S).is_last


def burst(rig: Rig, header: EncodedHeader) -> list[StreamExecution]:
    """Have four executions under way that went two by two."""
    rig.under_way(header, 0)
    together = [rig.put(header) for _ in range(4)]
    rig.taken()
    rig.taken()
    return together


def test_the_thread_is_woken_for_the_first_of_a_burst_and_sends_it_if_no_more_come(
    rig: Rig, pool: DaemonThreads
) -> None:
    header = stackable()
    rig.answer(*burst(rig, header))
    batch = sleeping(rig, pool)
    assert put_and_take(rig, header) is None
    assert ids(batch.result(LIMIT_S)) == [[6]]


def test_what_was_cancelled_is_neither_taken_nor_counted(rig: Rig, pool: DaemonThreads) -> None:
    batch = sleeping(rig, pool)
    execution = rig.make(stackable())
    del rig.wanted[execution.id]
    assert taken_with(rig, execution) is None
    assert execution.flow is None
    rig.outgoing.end()
    batch.result(LIMIT_S)


def test_whoever_takes_leaves_the_end_to_the_thread(rig: Rig, pool: DaemonThreads) -> None:
    batch = sleeping(rig, pool)
    rig.outgoing.is_asleep = True
    rig.outgoing.end()
    rig.outgoing.is_asleep = True
    put_and_take(rig, stackable())
    while not batch.result(LIMIT_S).is_last:
        batch = pool.submit(rig.outgoing.take)


def test_they_go_where_so_many_wait_as_one_stack_may_have(rig: Rig, pool: DaemonThreads) -> None:
    header = stackable(2)
    rig.under_way(header, 6)
    batch = sleeping(rig, pool)
    rig.put(header)
    rig.put(header)
    assert ids(batch.result(LIMIT_S)) == [[8, 9]]


def test_answers_let_go_what_waited_for_them(rig: Rig, pool: DaemonThreads) -> None:
    header = stackable()
    one, two, three = rig.under_way(header, 3)
    rig.put(header)
    batch = sleeping(rig, pool)
    rig.answer(one, two)
    assert ids(batch.result(LIMIT_S)) == [[5]]
    rig.answer(three)


def test_what_was_cancelled_under_way_is_waited_for_no_more(rig: Rig, pool: DaemonThreads) -> None:
    header = stackable()
    one, two, _ = rig.under_way(header, 3)
    rig.put(header)
    batch = sleeping(rig, pool)
    rig.drop(one)
    cancelled = batch.result(LIMIT_S)
    assert (ids(cancelled), cancelled.cancels) == ([], [one.id])
    rig.drop(two)
    batch = rig.outgoing.take()
    assert (ids(batch), batch.cancels) == ([[5]], [two.id])


def test_what_is_cancelled_before_it_was_sent_is_not_sent(rig: Rig) -> None:
    header = stackable()
    rig.put(header)
    rig.drop(rig.put(header))
    alone = rig.put(EncodedHeader(b""))
    rig.drop(alone)
    batch = rig.outgoing.take()
    assert (ids(batch), batch.cancels) == ([[1]], [2, 3])
    assert rig.unsent == [2, 3]


def test_what_is_withdrawn_and_was_sent_or_never_put_is_told_apart(rig: Rig) -> None:
    header = EncodedHeader(b"")
    sent, never_put = rig.put(header), rig.make(header)
    rig.outgoing.take()
    rig.drop(sent)
    rig.drop(never_put)
    batch = rig.outgoing.take()
    assert (ids(batch), batch.cancels, rig.unsent) == ([], [1, 2], [2])


def test_nothing_waits_for_what_takes_much_longer_on_the_device_than_on_the_wire(rig: Rig) -> None:
    header = stackable()
    rig.under_way(header, 3, inference_ms=20.0)
    rig.put(header)
    assert rig.taken() == [[5]]


def test_nothing_waits_for_executions_of_another_header(rig: Rig, pool: DaemonThreads) -> None:
    held, other = stackable(), stackable()
    rig.under_way(held, 3)
    rig.put(held)
    batch = sleeping(rig, pool)
    rig.put(other)
    assert ids(batch.result(LIMIT_S)) == [[6]]
    rig.put(EncodedHeader(b""))
    assert rig.taken() == [[7]]


def test_nothing_waits_for_longer_than_a_moment(pool: DaemonThreads) -> None:
    rig = Rig(LONGEST_HOLD_S)
    header = stackable()
    rig.under_way(header, 3)
    rig.put(header)
    batch = sleeping(rig, pool)
    rig.now += LONGEST_HOLD_S
    assert ids(batch.result(LIMIT_S)) == [[5]]


def test_what_waits_goes_when_it_makes_a_message_of_a_good_size(rig: Rig, pool: DaemonThreads) -> None:
    header = stackable()
    rig.gathering.most_bytes = 1000
    rig.under_way(header, 10)
    rig.put(header, 600)
    batch = sleeping(rig, pool)
    rig.put(header, 1)
    assert not batch.done()
    rig.put(header, 399)
    assert ids(batch.result(LIMIT_S)) == [[12, 13, 14]]


def test_each_that_waits_counts_with_its_own_size(rig: Rig, pool: DaemonThreads) -> None:
    header = stackable()
    rig.gathering.most_bytes = 1000
    rig.under_way(header, 10)
    rig.put(header, 1)
    rig.put(header, 600)
    batch = sleeping(rig, pool)
    rig.put(header, 399)
    assert ids(batch.result(LIMIT_S)) == [[12, 13, 14]]


def test_the_size_is_that_of_what_waits_and_not_of_what_was_sent(rig: Rig, pool: DaemonThreads) -> None:
    header = stackable()
    rig.gathering.most_bytes = 1000
    rig.under_way(header, 0)
    for _ in range(5):
        executions = [rig.put(header, 300) for _ in range(2)]
        rig.taken()
        rig.taken()
        rig.answer(*executions)
    rig.put(header)
    rig.put(header)
    rig.taken()
    rig.taken()
    rig.put(header, 300)
    batch = sleeping(rig, pool)
    assert not batch.done()
    rig.put(header)
    batch.result(LIMIT_S)


def test_the_end_takes_along_what_waits_and_nothing_that_comes_later(rig: Rig) -> None:
    header = stackable()
    rig.under_way(header, 3)
    rig.put(header)
    rig.outgoing.end()
    rig.put(header)
    batch = rig.outgoing.take()
    assert (ids(batch), batch.is_last) == ([[5]], True)


def test_behind_the_end_nobody_sends_what_is_put(rig: Rig) -> None:
    rig.outgoing.end()
    assert rig.outgoing.take().is_last
    assert put_and_take(rig, EncodedHeader(b"")) is None


def test_an_empty_queue_waits_for_whatever_comes(rig: Rig, pool: DaemonThreads) -> None:
    puts: list[Callable[[], object]] = [lambda: rig.put(stackable()), lambda: rig.put(EncodedHeader(b""))]
    for number, put in enumerate(puts, 1):
        batch = sleeping(rig, pool)
        put()
        assert ids(batch.result(LIMIT_S)) == [[number]]
    batch = sleeping(rig, pool)
    rig.outgoing.end()
    assert batch.result(LIMIT_S).is_last


def test_a_thread_that_is_called_comes_with_nothing_and_is_left_what_is_put_meanwhile(
    rig: Rig, pool: DaemonThreads
) -> None:
    batch = sleeping(rig, pool)
    rig.outgoing.interrupt()
    assert batch.result(LIMIT_S) == Shipment()
    assert put_and_take(rig, stackable()) is None
    assert rig.taken() == [[1]]
    batch = sleeping(rig, pool)
    assert not batch.done(), "it was called once"
    rig.outgoing.end()
    assert batch.result(LIMIT_S).is_last


def test_the_repr_counts(rig: Rig) -> None:
    rig.put(stackable())
    assert repr(rig.outgoing) == "<Outgoing: awake, <Gathering: 1 new, 0 wait for others>>"


def test_who_is_interrupted_while_it_falls_asleep_does_not_sleep(
    rig: Rig, pool: DaemonThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked whether there is anything to send, and is not yet known to be asleep."""

    def interrupt() -> bool:
        rig.outgoing.interrupt()
        return False

    monkeypatch.setattr(rig.gathering, "is_recent", interrupt)
    assert not pool.submit(rig.outgoing.take).result(LIMIT_S)


def test_who_is_interrupted_as_it_tells_of_answers_holds_up_nobody(rig: Rig, pool: DaemonThreads) -> None:
    steps = 0
    while True:
        rig.under_way(header := stackable(), 2)
        taking = sleeping(rig, pool)
        rig.put(header)
        wait_until(lambda: rig.outgoing.is_asleep)  # noqa: B023 - called here
        with (
            suppress(KeyboardInterrupt),
            Interrupt(KeyboardInterrupt, steps, is_answered=True, within=(outgoing.__file__,)) as interrupt,
        ):
            rig.outgoing.answers_came()
        rig.outgoing.interrupt()
        taking.result(LIMIT_S)
        rig = Rig()
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 2


def test_who_is_interrupted_as_it_puts_holds_up_nobody_who_cancels(pool: DaemonThreads) -> None:
    steps = 0
    while True:
        rig = Rig()
        taking = sleeping(rig, pool)
        execution = rig.make(stackable())
        with (
            suppress(KeyboardInterrupt),
            Interrupt(KeyboardInterrupt, steps, is_answered=True, within=(outgoing.__file__,)) as interrupt,
        ):
            rig.outgoing.put(execution)
            rig.outgoing.wake()
        rig.drop(execution)
        taking.result(LIMIT_S)
        if interrupt.is_due:
            break
        steps += 1
    assert steps > 2
