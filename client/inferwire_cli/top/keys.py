"""A key pressed in the terminal, without Enter."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import sleep

if sys.platform != "win32":
    import termios
    import tty

Wait = Callable[[float], str]
"""Waits so many seconds for keys, and gives those that were pressed; empty if none was."""

SUSPENDING = "\x1a"
"""What Ctrl-Z is as a key: who reads it can leave the terminal as it was before `suspend`."""


@contextmanager
def pressed_keys() -> Generator[Wait]:
    """Read keys as they are pressed; none on Windows, or if the input is no terminal.

    Ctrl-C works as ever, and Ctrl-Z is a key.
    """
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield _wait_without_keys
        return
    before = termios.tcgetattr(sys.stdin)
    # SIGTERM acts as Ctrl-C, so that the terminal is restored.
    ending = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        tty.setcbreak(sys.stdin, termios.TCSANOW)  # keys that were pressed before count, too
        _take_ctrl_z_for_a_key()
        yield _wait_for_key
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTERM, ending)


def suspend() -> None:
    """Stop as programs do on Ctrl-Z, with what runs beside this one, until the shell lets it go on."""
    if sys.platform != "win32":
        os.kill(0, signal.SIGTSTP)


def _take_ctrl_z_for_a_key() -> None:
    if sys.platform != "win32":
        attributes = termios.tcgetattr(sys.stdin)
        attributes[6][termios.VSUSP] = os.fpathconf(sys.stdin.fileno(), "PC_VDISABLE").to_bytes()
        termios.tcsetattr(sys.stdin, termios.TCSANOW, attributes)


def _wait_for_key(seconds: float) -> str:
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    if not ready:
        return ""
    pressed = os.read(sys.stdin.fileno(), 64)
    if not pressed:
        raise KeyboardInterrupt  # the terminal is gone, and its user with it
    return pressed.decode(errors="replace")


def _wait_without_keys(seconds: float) -> str:
    sleep(seconds)
    return ""
