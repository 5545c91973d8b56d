"""Threads that grow: as many as are needed, kept, and holding nothing when idle."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from weakref import ref

import pytest
from tests.engine.conftest import no_new_threads
from tests.waiting import LIMIT_S

from inferwire_server.engine.thread_pool import NoThread, ThreadPool


def names(threads: ThreadPool, calls: int) -> set[str]:
    """Run calls that meet each other, so that each has a thread of its own, and name those."""
    meeting, seen = threading.Barrier(calls + 1), SimpleQueue[str]()

    def call() -> None:
        seen.put(threading.current_thread().name)
        meeting.wait(LIMIT_S)

    for _ in range(calls):
        threads.run(call)
    meeting.wait(LIMIT_S)
    for _ in range(calls):
        threads.done()
    return {seen.get(timeout=LIMIT_S) for _ in range(calls)}


def alive(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


def test_threads_come_as_they_are_needed_and_are_used_again() -> None:
    threads = ThreadPool("grown")
    assert names(threads, 1) == {"grown-0"}
    assert names(threads, 3) == {"grown-0", "grown-1", "grown-2"}
    assert names(threads, 2) <= {"grown-0", "grown-1", "grown-2"}
    assert repr(threads) == "<ThreadPool grown: 0/3 busy>"
    threads.close()


def test_they_are_daemons_that_a_stuck_inference_cannot_hold_the_process_with() -> None:
    threads = ThreadPool("daemons")
    names(threads, 1)
    assert [thread.daemon for thread in alive("daemons")] == [True]
    threads.close()


def test_closing_ends_them_after_their_calls() -> None:
    threads = ThreadPool("closed")
    names(threads, 2)
    workers, results = alive("closed"), SimpleQueue[str]()
    threads.run(lambda: results.put("done"))
    threads.close()
    for worker in workers:
        worker.join(LIMIT_S)
    assert results.get_nowait() == "done"
    assert alive("closed") == []


def test_a_call_that_no_thread_can_run_is_refused_and_counts_for_nothing() -> None:
    threads = ThreadPool("refused")
    with no_new_threads(), pytest.raises(NoThread, match="can't start new thread"):
        threads.run(lambda: None)
    assert repr(threads) == "<ThreadPool refused: 0/0 busy>"
    assert names(threads, 1) == {"refused-0"}
    threads.close()


def test_where_no_more_can_be_started_a_call_waits_for_one_of_the_others() -> None:
    threads, gate, results = ThreadPool("few"), threading.Event(), SimpleQueue[bool]()
    threads.run(lambda: results.put(gate.wait(LIMIT_S)))
    with no_new_threads():
        threads.run(lambda: results.put(gate.is_set()))
    assert repr(threads) == "<ThreadPool few: 2/1 busy>"
    gate.set()
    assert [results.get(timeout=LIMIT_S) for _ in range(2)] == [True, True]
    for _ in range(2):
        threads.done()
    assert names(threads, 2) == {"few-0", "few-1"}
    threads.close()


class Held:
    """Something an idle thread must let go."""

    def __call__(self) -> None:
        """Do nothing."""


def test_an_idle_thread_holds_nothing_of_its_last_call() -> None:
    threads, gone = ThreadPool("idle"), threading.Event()
    held = Held()
    watch = ref(held, lambda _: gone.set())
    threads.run(held)
    threads.done()
    del held
    assert gone.wait(LIMIT_S), f"{watch()} is kept"
    threads.close()
