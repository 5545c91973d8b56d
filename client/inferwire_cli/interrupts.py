"""Where Ctrl-C is an exception: in a command's work, which may have something to end well, and nowhere else."""

from __future__ import annotations

import _thread
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import Timer

_OVER_S = 0.01
"""How long it may take until what cannot raise is over: too short a time only has it begin anew."""


@contextmanager
def interruptible() -> Generator[None]:
    """Let Ctrl-C raise KeyboardInterrupt as long as the block runs, unless it is ignored."""
    handler, hook = signal.getsignal(signal.SIGINT), sys.unraisablehook
    if handler == signal.SIG_IGN:
        yield
        return

    def interrupt_again(lost: sys.UnraisableHookArgs) -> None:
        """Have what was raised where nobody waits for it, as in an object's end, raised once more when that is over."""
        if issubclass(lost.exc_type, KeyboardInterrupt):
            Timer(_OVER_S, _thread.interrupt_main).start()
        else:
            hook(lost)

    try:
        sys.unraisablehook = interrupt_again
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        sys.unraisablehook = hook


def was_interrupted(error: BaseException | None) -> bool:
    """Whether an error is Ctrl-C or has come of it: some packages, as they are imported, make another one of it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))  # one may have come of itself
        error = error.__cause__ or error.__context__
    return False
