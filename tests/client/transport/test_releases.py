"""What nobody uses any more: freed beside the program, and before what needs its room."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import SimpleQueue
from types import SimpleNamespace

import pytest
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S

from inferwire.transport.releases import Released, Releases


class Sends:
    """Batches as they are sent, none before the test lets it."""

    def __init__(self) -> None:
        self.begun: SimpleQueue[list[int]] = SimpleQueue()
        self.may_end = threading.Semaphore(0)
        self.done: list[int] = []
        self.can_send = True
        self.thread = threading.current_thread()

    def send(self, batch: list[Released]) -> bool:
        tensors, can_send = [each.tensor for each in batch], self.can_send
        self.thread = threading.current_thread()
        self.begun.put(tensors)
        assert self.may_end.acquire(timeout=LIMIT_S)
        self.done += tensors
        return can_send


@pytest.fixture
def sends() -> Sends:
    return Sends()


@pytest.fixture
def releases(sends: Sends) -> Iterator[Releases]:
    releases = Releases(sends.send)
    yield releases
    for _ in range(100):
        sends.may_end.release()
    releases.stop()


@pytest.fixture
def threads() -> Iterator[DaemonThreads]:
    with DaemonThreads() as threads:
        yield threads


def test_what_is_put_is_sent_in_batches(sends: Sends, releases: Releases) -> None:
    releases.start()
    releases.put(Released(tensor=1))
    assert sends.begun.get(timeout=LIMIT_S) == [1]
    releases.put(Released(tensor=2))
    releases.put(Released(tensor=3))
    sends.may_end.release()
    assert sends.begun.get(timeout=LIMIT_S) == [2, 3]


def test_a_flush_waits_for_what_the_thread_has_begun_to_send(
    sends: Sends, releases: Releases, threads: DaemonThreads
) -> None:
    releases.start()
    releases.put(Released(tensor=1))
    sends.begun.get(timeout=LIMIT_S)
    releases.put(Released(tensor=2))

    def flush() -> list[int]:
        releases.flush()
        return list(sends.done)

    flushed = threads.submit(flush)
    for _ in range(2):
        assert not flushed.done()
        sends.may_end.release()
    assert flushed.result(LIMIT_S) == [1, 2]


def test_a_flush_sends_nothing_where_nothing_is_to_be_freed(sends: Sends, releases: Releases) -> None:
    releases.flush()
    assert sends.begun.empty()


def test_the_thread_ends_once_all_is_sent(sends: Sends) -> None:
    releases = Releases(sends.send)
    releases.start()
    releases.put(Released(tensor=1))
    releases.stop()
    sends.may_end.release()
    assert sends.begun.get(timeout=LIMIT_S) == [1]
    sends.thread.join(LIMIT_S)
    assert (sends.thread.is_alive(), sends.done) == (False, [1])


def test_what_could_not_be_sent_is_sent_after_a_wake(sends: Sends, releases: Releases) -> None:
    sends.can_send = False
    releases.start()
    releases.put(Released(tensor=1))
    assert sends.begun.get(timeout=LIMIT_S) == [1]
    sends.may_end.release()
    sends.can_send = True
    releases.wake()
    assert sends.begun.get(timeout=LIMIT_S) == [1]
    sends.may_end.release()
    releases.flush()
    assert sends.begun.empty()


def test_of_threads_that_start_it_at_once_one_does(
    sends: Sends, threads: DaemonThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[threading.Thread] = []
    together = threading.Barrier(2)

    class Slow(threading.Thread):
        def start(self) -> None:
            started.append(self)
            # Until the other one has come as far, or would have.
            with suppress(threading.BrokenBarrierError):
                together.wait(0.2)
            super().start()

    monkeypatch.setattr("inferwire.transport.releases.threading", SimpleNamespace(Thread=Slow, Lock=threading.Lock))
    releases = Releases(sends.send)
    for done in [threads.submit(releases.start) for _ in range(2)]:
        done.result(LIMIT_S)
    releases.stop()
    for thread in started:
        thread.join(LIMIT_S)
    assert [thread.is_alive() for thread in started] == [False]


IN_A_CHILD = """
import os, threading
from inferwire.transport.releases import Released, Releases
begun, never = threading.Event(), threading.Event()
parent = os.getpid()
releases = Releases(lambda batch: os.getpid() != parent or (begun.set(), never.wait()))
releases.start()
releases.put(Released(tensor=1))
begun.wait()
if (child := os.fork()) == 0:
    releases.put(Released(tensor=2))
    releases.flush()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os._exit(0)
"""


def test_a_forked_child_does_not_wait_for_what_its_parent_sends() -> None:
    # From 3.12 on Python warns of a fork beside threads, which is what this is about.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", IN_A_CHILD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.stdout, done.stderr) == ("7\n", "")
