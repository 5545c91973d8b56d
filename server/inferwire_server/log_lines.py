"""Writes log lines to stderr without blocking: if stderr is not read, a line is lost, and no call waits for it."""

from __future__ import annotations

import logging
import os
import select
from contextlib import suppress
from stat import S_ISFIFO
from typing import TextIO

_TIMEOUT_S = 0.1
"""How long a line waits for room before it is lost: the reader may only be busy."""

_PIECE_BYTES = select.PIPE_BUF
"""How many bytes go at once into a pipe that has any room."""


def let_nobody_wait(descriptor: int) -> None:
    """Have lines, libraries' own too, be lost if they find no room in a pipe or terminal, in place of waiting for it.

    The descriptor is opened anew for that, because other processes may share it as it was opened before, and are to
    wait. It is not enough to ask for room before a line: a terminal that has some room, but too little for the line,
    would let its writer wait.
    """
    with suppress(OSError):  # it is another user's, or closed
        if S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor):
            opened = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
            os.dup2(opened, descriptor)
            os.close(opened)


class LineHandler(logging.Handler):
    """Writes events to a stream's descriptor, each as a line.

    Lines for which there is no room are lost; how many is told before the next line that goes. Nothing is kept to be
    written later: the last lines before a crash are the ones that are wanted.
    """

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream that has a descriptor."""
        super().__init__()
        self._stream = stream
        self._descriptor = stream.fileno()
        self._room = select.poll()
        self._room.register(self._descriptor, select.POLLOUT)
        self._lost = 0
        self._is_cut = False  # The last line went in part: the next begins anew.

    def __repr__(self) -> str:
        return f"<LineHandler to {self._descriptor}: {self._lost} lines lost>"

    def emit(self, record: logging.LogRecord) -> None:
        """Write an event, or count it as lost."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - code that logs must not fail for that
            self.handleError(record)
            return
        if self._lost and self._has_room(0) and self._write(self.format(_told(self._lost))):
            self._lost = 0
        if self._lost or not self._write(line):
            self._lost += 1

    def _write(self, line: str) -> bool:
        """Write a line; tell whether all of it went."""
        data = ("\n" * self._is_cut + line + "\n").encode(self._stream.encoding, self._stream.errors or "strict")
        left = memoryview(data)
        try:
            while left and self._has_room(_TIMEOUT_S):
                left = left[os.write(self._descriptor, left[:_PIECE_BYTES]) :]
        except OSError:
            # The reader is gone, or the disk is full.
            pass
        if len(left) < len(data):
            self._is_cut = bool(left)
        return not left

    def _has_room(self, timeout_s: float) -> bool:
        return bool(self._room.poll(timeout_s * 1000))


def _told(lost: int) -> logging.LogRecord:
    sentence = f"log lines were lost, since there was no room for them: {lost}"
    return logging.LogRecord(__name__, logging.WARNING, "", 0, sentence, None, None)
