"""Runs what is gRPC's off the main thread, where no signal handler that raises can interrupt it half way."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from inferwire.latch import Latch

T = TypeVar("T")


def undisturbed(work: Callable[[], T]) -> T:
    """Do the work where no signal handler interrupts it: the main thread has another thread do it, and waits.

    If that wait is interrupted, the work is done all the same.

    gRPC takes its locks in steps between which Python runs signal handlers. One that raises there, as Ctrl-C's does,
    leaves the channel's lock held, and every other thread that needs it, to make or to cancel a call, to read an answer
    or to close the channel, would wait for ever. A connection is opened by a thread of its own for the same reason,
    since several threads may wait for it: `link.Opening`.
    """
    if threading.get_ident() != threading.main_thread().ident or sys.is_finalizing():
        return work()
    errand = _Errand(work)
    try:
        _thread.start_new_thread(errand.run, ())
    except RuntimeError:
        # There are no more threads, or the process is about to end.
        return work()
    errand.wait()
    return errand.result()


def undisturbed_with_thread(work: Callable[[], T]) -> T:
    """Do work undisturbed for which gRPC starts a thread; do nothing if the system gives no thread.

    gRPC counts a call before it starts the thread that ends it. Without that thread, later calls on the channel would
    wait for ever, and so would closing it.

    Raises:
        RuntimeError: If the system gives no thread.
    """

    def work_if_there_is_a_thread() -> T:
        if not sys.is_finalizing():
            has_run = Latch()
            _thread.start_new_thread(has_run.set, ())
            # This one is out of the way before gRPC starts its own.
            has_run.wait()
        return work()

    return undisturbed(work_if_there_is_a_thread)


class _Errand(Latch, Generic[T]):
    """Work that another thread does; set once it is done."""

    _value: T | None = None
    _error: BaseException | None = None

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work

    def run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            self._error = error
        self.set()

    def result(self) -> T:
        """Give the result of the work, or raise its exception; once."""
        error, self._error = self._error, None
        if error is None:
            return cast("T", self._value)
        try:
            raise error
        finally:
            # The error's traceback refers to this frame, which must not refer back to the error.
            del error
