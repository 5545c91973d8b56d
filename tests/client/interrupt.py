"""Ctrl-C, or a lack of memory, at any step of the SDK."""

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
    """Raises after so many steps of the SDK; steps are the points at which Python runs the handlers of signals.

    Args:
        error: The error that it raises.
        after: How many steps are taken before; fewer if the SDK begins to wait for an answer that never comes.
        is_answered: Whether the answer that it waits for comes.
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
        # The interpreter does not keep a profile function alive during the call that removes it.
        self._profile = self._step
        self._is_destroying = False

    def __enter__(self) -> Interrupt:
        # The finalizer of an object that is collected here would be interrupted instead, and its error would be lost.
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
            # Only Python 3.14 runs handlers between the taking of a lock and the next step, where no code can help.
            return
        if not frame.f_code.co_filename.startswith(self._within):
            return
        if frame.f_code.co_name == "__del__":
            # An error that is raised in a finalizer, or in a function it calls, would be lost.
            self._is_destroying = event != "return"
            return
        if self._is_destroying:
            return
        self.is_due = self._left > 0
        self._left -= 1
        if not self.is_due or frame.f_code is self._last:
            sys.setprofile(None)
            raise self._error
