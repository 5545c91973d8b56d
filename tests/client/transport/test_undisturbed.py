"""What is done on a thread of its own for who waits for it."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from contextlib import suppress
from weakref import ref

import pytest
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S

from inferwire.transport.undisturbed import undisturbed, undisturbed_with_thread

AT_THE_END = """
from inferwire.transport.undisturbed import undisturbed

class Last:
    def __del__(self, undisturbed=undisturbed):
        print(undisturbed(lambda: "done"))

last = Last()
"""
"""A program whose destructor needs something done while the interpreter shuts down, where no thread runs any more."""


A_CALL_WITHOUT_A_THREAD = """
import threading
import grpc
from inferwire.transport import rpc

channel = grpc.insecure_channel("unix:/nobody/is/here")
answered = threading.Event()

def call():
    rpc.start_unary(channel, "InferenceService.Infer", b"", (), lambda _: answered.set())

usual = threading.stack_size(1 << 46)
try:
    call()
except RuntimeError as error:
    print(error)
threading.stack_size(usual)
call()
answered.wait()
channel.close()
"""
"""A program that the system gives no thread for its first call."""


def fail() -> None:
    raise OSError("no")


def test_what_the_main_thread_asks_for_another_does() -> None:
    assert undisturbed(threading.get_ident) != threading.get_ident()


def test_a_thread_that_runs_no_handlers_of_signals_does_it_itself() -> None:
    def asked_here() -> bool:
        return undisturbed(threading.get_ident) == threading.get_ident()

    with DaemonThreads() as beside:
        assert beside.submit(asked_here).result(LIMIT_S)


def test_its_error_is_raised() -> None:
    with pytest.raises(OSError, match="no"):
        undisturbed(fail)


def test_without_threads_the_caller_does_it() -> None:
    usual = threading.stack_size(1 << 46)
    try:
        assert undisturbed(threading.get_ident) == threading.get_ident()
    finally:
        threading.stack_size(usual)


def test_what_needs_a_thread_is_not_begun_without() -> None:
    done: list[int] = []
    usual = threading.stack_size(1 << 46)
    try:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            undisturbed_with_thread(lambda: done.append(1))
    finally:
        threading.stack_size(usual)
    assert done == []
    undisturbed_with_thread(lambda: done.append(2))
    assert done == [2]


def test_a_call_for_which_there_was_no_thread_holds_up_no_other_of_its_channel() -> None:
    program = [sys.executable, "-c", A_CALL_WITHOUT_A_THREAD]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=LIMIT_S)
    assert (ended.stdout, ended.returncode) == ("can't start new thread\n", 0)


def test_at_the_end_of_the_process_the_caller_does_it() -> None:
    ended = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=LIMIT_S)
    assert (ended.stdout, ended.stderr) == ("done\n", "")


class Held:
    """What a caller has at hand while that fails."""


def test_an_error_that_was_dealt_with_keeps_nothing_of_its_caller() -> None:
    def attempt() -> ref[Held]:
        held = Held()
        with suppress(OSError):
            undisturbed(fail)
        return ref(held)

    gc.disable()
    try:
        assert attempt()() is None
    finally:
        gc.enable()
