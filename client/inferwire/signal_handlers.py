"""Which errors are signal handlers': Python runs those in the midst of whatever the main thread does.

Where the SDK expects errors of what it calls, it must not take a handler's for one of them.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from traceback import walk_tb
from types import CodeType
from typing import Any


def is_a_handlers(error: BaseException) -> bool:
    """Whether a signal handler has raised an error, as far as can be told.

    OSErrors of the system have a number. Handlers' usually have none, as in `raise TimeoutError("took too long")`.
    """
    if isinstance(error, OSError) and error.errno is None:
        return True
    handlers = frozenset(_codes())
    return any(frame.f_code in handlers for frame, _ in walk_tb(error.__traceback__))


def _codes() -> Iterator[CodeType]:
    """Give the code of each handler that is written in Python."""
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        for each in (handler, getattr(handler, "__call__", None), getattr(handler, "func", None)):  # noqa: B004
            code = getattr(each, "__code__", None)
            if isinstance(code, CodeType):
                yield code
