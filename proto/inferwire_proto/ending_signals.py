"""What signals that ask a program to end do while it cannot yet end well, or cannot any more.

To import a server or a command takes a second. What a signal raises meanwhile, in the middle of another's module, comes
out as an error of that module, or is lost there, with a traceback either way. To be imported, and called, before all
else that takes time.
"""

from __future__ import annotations

import os

# `signal` is made of it, and takes half as long to import as Python takes to start.
_signal = __import__("_signal")


def end_at_once(*names: str) -> None:
    """Have these signals end the process without a word, with the exit code that a shell has for them.

    Those that whoever started the process has it ignore stay ignored. The first process of a container is ended by none
    that it does not handle.
    """
    for number in (getattr(_signal, name) for name in names):
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, _end)


def hold_back(*names: str) -> None:
    """Have these signals wait until whoever handles them has the process take them."""
    _signal.pthread_sigmask(_signal.SIG_BLOCK, [getattr(_signal, name) for name in names])


def _end(number: int, _: object) -> None:
    os._exit(128 + number)
