"""Runs gRPC's calls off the main thread, where no signal's handler that raises can interrupt them half way."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from inferwire.latch import Latch

T = TypeVar("T")


def undisturbed(work: Callable[[], T]) -> T:
    """Do something where nothing interrupts it: for the main thread, on one of its own, whose end it waits for.

    Where the wait is interrupted, it is done all the same.

    gRPC takes its locks in steps between which Python runs the handlers of signals. One that raises there, as Ctrl-C's
    does, leaves the channel's lock held: every other thread that needs it, be it to make a call, to read an answer or
    to close the channel, would then wait for ever. Opening a connection, for which several threads may wait, has a
    thread of its own likewise: `link.Opening`.
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
    """Do something undisturbed for which gRPC starts a thread, and nothing where the system gives none.

    gRPC counts a call before it starts the thread that ends it. Without that, later calls of the channel would wait for
    ever, and so would whoever closes it.

    Raises:
        RuntimeError: If the system gives no thread.
    """

    def work_if_there_is_a_thread() -> T:
        if not sys.is_finalizing():
            has_run = Latch()
            _thread.start_new_thread(has_run.set, ())
            # It is out of the way when the next one is started.
            has_run.wait()
        return work()

    return undisturbed(work_if_there_is_a_thread)


class _Errand(Latch, Generic[T]):
    """Something that another thread does; set once it is done."""

    _value: T | None = None
    _error: BaseException | None = None

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work

    def run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as error:  # noqa: BLE001 - raised by who waits
            self._error = error
        self.set()

    def result(self) -> T:
        """Give what came of it, or raise what was raised there; once."""
        error, self._error = self._error, None
        if error is None:
            return cast("T", self._value)
        try:
            raise error
        finally:
            # The error has this frame, which is not to have it in turn.
            del error
