"""Ctrl-C as an exception: only during a command's work, which may have to clean up."""

from __future__ import annotations

import _thread
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import Event, Thread
from time import sleep

_OVER_S = 0.01
"""The delay until Ctrl-C is raised again, by which code that cannot raise is over. If it is not, the delay repeats."""


@contextmanager
def interruptible() -> Generator[None]:
    """Let Ctrl-C raise KeyboardInterrupt as long as the block runs, unless it is ignored."""
    handler, hook = signal.getsignal(signal.SIGINT), sys.unraisablehook
    if handler == signal.SIG_IGN:
        yield
        return

    def interrupt_again(lost: sys.UnraisableHookArgs) -> None:
        """Raise Ctrl-C again a little later if Python could not raise it, as in an object's finalizer."""
        if issubclass(lost.exc_type, KeyboardInterrupt):
            is_known = Event()
            Thread(target=_interrupt_later, args=(is_known,), daemon=True).start()
            # Not before: what is raised in here is lost for good, and it may take long to start a thread.
            is_known.set()
        else:
            hook(lost)

    try:
        sys.unraisablehook = interrupt_again
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        sys.unraisablehook = hook


def _interrupt_later(is_known: Event) -> None:
    is_known.wait()
    sleep(_OVER_S)
    _thread.interrupt_main()


def was_interrupted(error: BaseException | None) -> bool:
    """Whether an error is Ctrl-C or was caused by it: some packages turn it into another error when imported."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))  # a chain of causes may be a circle
        error = error.__cause__ or error.__context__
    return False
