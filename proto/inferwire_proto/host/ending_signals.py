"""How signals that ask a program to end are handled while it cannot yet, or can no longer, end well.

Importing a server or a command takes a second. An exception that a signal's handler raises meanwhile, in the middle of
a library's module, comes out as an error of that module or is lost there, with a traceback either way. So import and
call this before everything that takes time.
"""

from __future__ import annotations

import os

# `signal` is a layer over it, and takes half as long to import as Python takes to start.
_signal = __import__("_signal")


def end_at_once(*names: str) -> None:
    """Have these signals end the process without a word, with the exit code that a shell has for them.

    Signals that the process was started to ignore stay ignored. Handlers are needed because the first process of a
    container is ended by no signal that it does not handle.
    """
    for number in (getattr(_signal, name) for name in names):
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, _end)


def hold_back(*names: str) -> None:
    """Block these signals until the code that handles them unblocks them."""
    _signal.pthread_sigmask(_signal.SIG_BLOCK, [getattr(_signal, name) for name in names])


def _end(number: int, _: object) -> None:
    os._exit(128 + number)
