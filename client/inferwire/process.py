"""Which process this is: a forked child must not share some things with its parent. Asks the system once."""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Callable

FINALIZING = "the interpreter is shutting down, and the threads that would take the answer run no more"
"""The message for a call that would have to wait for a thread at the end of the process."""


class _Process:
    """The process at hand."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._renewals: set[weakref.WeakMethod[Callable[[], object]]] = set()
        if sys.platform != "win32":  # where processes do not fork
            os.register_at_fork(after_in_child=self._forked)

    def after_fork(self, renew: Callable[[], object]) -> None:
        """Have a method called in each forked child, before any other thread runs there; its object is not kept.

        It renews what threads of the parent may have held or left half done, because none of them runs in the child. It
        must not raise.
        """
        self._renewals.add(weakref.WeakMethod(renew, self._renewals.discard))

    def _forked(self) -> None:
        self.pid = os.getpid()
        for renewal in tuple(self._renewals):
            renew = renewal()
            if renew is not None:
                renew()


THIS = _Process()
"""Its `pid` is that of the process that reads it. To ask the system for that would cost a tenth of an inference."""


def keep_for_ever(value: object) -> None:
    """Have the destructor of a value never run in this process, not even as the interpreter ends.

    Whatever in Python refers to it would let go of it by then.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
