"""What nobody uses any more: freed beside the program, and before what needs its room."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pytest

from inferwire.transport.releases import Released, Releases

TIMEOUT_S = 30


class Sends:
    """Batches as they are sent, none before the test lets it."""

    def __init__(self) -> None:
        self.begun: SimpleQueue[list[int]] = SimpleQueue()
        self.may_end = threading.Semaphore(0)
        self.done: list[int] = []
        self.thread = threading.current_thread()

    def send(self, batch: list[Released]) -> None:
        tensors = [each.tensor for each in batch]
        self.thread = threading.current_thread()
        self.begun.put(tensors)
        assert self.may_end.acquire(timeout=TIMEOUT_S)
        self.done += tensors


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
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


def test_what_is_put_is_sent_in_batches(sends: Sends, releases: Releases) -> None:
    releases.start()
    releases.put(Released(tensor=1))
    assert sends.begun.get(timeout=TIMEOUT_S) == [1]
    releases.put(Released(tensor=2))
    releases.put(Released(tensor=3))
    sends.may_end.release()
    assert sends.begun.get(timeout=TIMEOUT_S) == [2, 3]


def test_a_flush_waits_for_what_the_thread_has_begun_to_send(
    sends: Sends, releases: Releases, threads: ThreadPoolExecutor
) -> None:
    releases.start()
    releases.put(Released(tensor=1))
    sends.begun.get(timeout=TIMEOUT_S)
    releases.put(Released(tensor=2))

    def flush() -> list[int]:
        releases.flush()
        return list(sends.done)

    flushed = threads.submit(flush)
    for _ in range(2):
        assert not flushed.done()
        sends.may_end.release()
    assert flushed.result(TIMEOUT_S) == [1, 2]


def test_a_flush_sends_nothing_where_nothing_is_to_be_freed(sends: Sends, releases: Releases) -> None:
    releases.flush()
    assert sends.begun.empty()


def test_the_thread_ends_once_all_is_sent(sends: Sends) -> None:
    releases = Releases(sends.send)
    releases.start()
    releases.put(Released(tensor=1))
    releases.stop()
    sends.may_end.release()
    assert sends.begun.get(timeout=TIMEOUT_S) == [1]
    sends.thread.join(TIMEOUT_S)
    assert (sends.thread.is_alive(), sends.done) == (False, [1])


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
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.stdout, done.stderr) == ("7\n", "")
