"""Which process this is: a forked child must not share some things with its parent. Asks the system once."""

from __future__ import annotations

import os

CAN_FORK = hasattr(os, "register_at_fork")
"""Whether this system's processes fork."""


class _Process:
    """The process at hand."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        if CAN_FORK:
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.pid = os.getpid()


THIS = _Process()
"""Its `pid` is that of the process that reads it. Asked of the system, it would cost a tenth of an inference."""
