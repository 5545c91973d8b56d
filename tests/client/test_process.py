"""A forked child: what is made anew there, so that none of its parent's threads keeps it waiting."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.process import THIS
from inferwire.transport.fake_transport import FakeTransport

PROGRAM = """
import os, signal, threading
from types import SimpleNamespace
from inferwire.requests.callbacks import CallbackThreads
from inferwire.transport.compiled_models import CompiledModels
from inferwire.transport.executions import Target
from inferwire.transport.submission import Retries
from inferwire.transport.uploads import SessionBlobs

entered, never = threading.Event(), threading.Event()


def fork(check):
    if (child := os.fork()) == 0:
        signal.alarm(30)
        os._exit(7 if check() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def hold(*_):
    entered.set()
    never.wait()

{}
print(status, flush=True)
os._exit(0)
"""

FORKS = {
    "in a callback, while another thread has the lock": """
        threads, ended, result = CallbackThreads(limit=1), threading.Event(), []

        def wait_in_child():
            ran = threading.Event()
            threads.run(ran.set)
            with threads.blocking():
                return ran.wait(20) and repr(threads) == "<CallbackThreads: 0 waiting, 2 threads>"

        def callback():
            entered.set()
            while not threads._waiting:
                os.sched_yield()
            result.append(fork(wait_in_child))
            ended.set()

        threads.run(callback)
        entered.wait()
        with threads._lock:
            threads._waiting.append(never.set)
            ended.wait()
        (status,) = result
        """,
    "with callbacks that wait, of which the child runs none": """
        threads = CallbackThreads(limit=1)
        threads.run(hold)
        entered.wait()
        ran = threading.Event()
        threads.run(lambda: os._exit(2))

        def run_in_child():
            threads.run(ran.set)
            return ran.wait(20)

        status = fork(run_in_child)
        """,
    "while a model is compiled again": """
        old, new = (SimpleNamespace(session_id=name) for name in ("old", "new"))
        models, parent = CompiledModels("here"), os.getpid()
        models.add(old, "m", (), lambda link: ("again", ()) if os.getpid() != parent else hold())
        target = Target("m", is_served=False)
        threading.Thread(target=models.target_on, args=(new, target), daemon=True).start()
        entered.wait()
        status = fork(lambda: models.target_on(new, target).name == "again")
        """,
    "while it is looked up what a session has": """
        there = SessionBlobs()

        def look():
            with there._lock:
                hold()

        threading.Thread(target=look, daemon=True).start()
        entered.wait()
        status = fork(lambda: there.upload("session", b"sha", id) is not None)
        """,
    "while executions are to be sent again, of which the child sends none": """
        class Submission(SimpleNamespace):
            def send(self, sender, link):
                sent.append(self.name)
                done.set()

        sent, done, parent = [], threading.Event(), os.getpid()
        find = lambda link: link if os.getpid() != parent else hold()
        sender = SimpleNamespace(is_ready=lambda link, header: True)
        retries = Retries(sender, find, lambda: True)
        first, second, third = (Submission(name=at, link="link", needs_room=False, header=None) for at in range(3))
        retries.put(first)
        entered.wait()
        retries.put(second)

        def send_in_child():
            retries.put(third)
            return done.wait(20) and sent == [2]

        with retries._lock:
            status = fork(send_in_child)
        """,
}


def run_forking(forking: str) -> tuple[str, str]:
    """Give what a program prints that ends with how its forked child has."""
    # From 3.12 on Python warns of a fork beside threads, which is what this is about.
    program = PROGRAM.format(dedent(forking))
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return done.stdout, done.stderr


@pytest.mark.parametrize("forking", FORKS.values(), ids=FORKS)
def test_a_forked_child_is_kept_waiting_by_none_of_its_parents_threads(forking: str) -> None:
    assert run_forking(forking) == ("7\n", "")


INHERITED = """
        from inferwire.requests.run import Run

        run, cancels, parent = Run(is_synchronous=True), [], os.getpid()
        run.execution = SimpleNamespace(cancel=lambda: cancels.append(os.getpid()))

        def stop_in_child():
            run.stop()
            return run.answer_latch.is_set() and not cancels

        status = fork(stop_in_child)
        run.stop()
        status = status if cancels == [parent] else cancels
        """


def test_a_forked_child_does_not_cancel_what_its_parent_waits_for() -> None:
    assert run_forking(INHERITED) == ("7\n", "")


def test_a_forked_child_that_drops_a_request_does_not_cancel_what_its_parent_waits_for(
    transport: FakeTransport, compiled: ov.CompiledModel
) -> None:
    request = compiled.create_infer_request()
    request.start_async(np.ones((1, 3), np.float32))
    gc.collect()  # here, where gRPC takes what other tests have left of it: in a forked child it would abort
    if (child := os.fork()) == 0:
        del request
        gc.collect()
        os._exit(1 if transport.executions[0].is_cancelled else 7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    request.cancel()


class Renewed:
    """Counts how often it is."""

    def __init__(self) -> None:
        self.count = 0
        THIS.after_fork(self.renew)

    def renew(self) -> None:
        self.count += 1


def renewals() -> list[object]:
    """Those of this test: what other tests have dropped may go meanwhile."""
    made_anew = [renewal() for renewal in tuple(THIS._renewals)]  # pyright: ignore[reportPrivateUsage]
    return [renew for renew in made_anew if isinstance(getattr(renew, "__self__", None), Renewed)]


def test_what_is_made_anew_is_so_in_the_child_alone_and_is_not_kept() -> None:
    kept, dropped = Renewed(), Renewed()
    assert len(renewals()) == 2
    del dropped
    gc.collect()
    assert len(renewals()) == 1
    parent = THIS.pid
    if (child := os.fork()) == 0:
        os._exit(7 if kept.count == 1 and THIS.pid == os.getpid() != parent else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert (kept.count, THIS.pid) == (0, parent)
