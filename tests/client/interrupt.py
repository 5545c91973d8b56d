"""Ctrl-C, or want of memory, at any step that the SDK takes."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import FrameType

import inferwire
from inferwire.latch import Latch

PACKAGE = str(Path(inferwire.__file__).parent)
"""The SDK."""


class Interrupt:
    """Raises where the SDK has come to after so many steps, which are where Python runs the handlers of signals.

    Args:
        error: What it raises.
        after: How many steps are taken before; fewer where the SDK begins to wait for what never comes.
        is_answered: Whether what it waits for comes.
        within: The folders and files whose steps are counted.

    Attributes:
        is_due: Whether the steps are still to come.
    """

    def __init__(
        self, error: type[BaseException], after: int, *, is_answered: bool, within: tuple[str, ...] = (PACKAGE,)
    ) -> None:
        self.is_due = True
        self._error = error
        self._left = after
        self._within = within
        self._last = None if is_answered else Latch.wait.__code__
        # The interpreter does not keep a profile function alive through the call in which it is taken away.
        self._profile = self._step
        self._is_destroying = False

    def __enter__(self) -> Interrupt:
        # What is collected within would be interrupted instead, and nobody would hear of it.
        gc.disable()
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _step(self, frame: FrameType, event: str, called: object) -> None:
        if event not in ("call", "c_return") and not self._is_destroying:
            return
        if event == "c_return" and getattr(called, "__name__", "") == "__enter__":
            # Python 3.14 alone runs handlers between a lock's taking and what follows, where nothing can be done.
            return
        if not frame.f_code.co_filename.startswith(self._within):
            return
        if frame.f_code.co_name == "__del__":
            # Nobody would hear of what is raised there, or in what it calls.
            self._is_destroying = event != "return"
            return
        if self._is_destroying:
            return
        self.is_due = self._left > 0
        self._left -= 1
        if not self.is_due or frame.f_code is self._last:
            sys.setprofile(None)
            raise self._error
