"""Which errors are signal handlers'."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from inferwire.signal_handlers import is_a_handlers

SIGNAL = signal.SIGUSR1


def raise_value_error(*_: object) -> None:
    raise ValueError("a handler's")


class Handlers:
    """Handlers of other kinds than functions."""

    def method(self, *_: object) -> None:
        raise_value_error()

    def __call__(self, *_: object) -> None:
        raise_value_error()


@contextmanager
def handled_by(handler: Callable[..., Any]) -> Generator[None]:
    """Have a handler handle the signal."""
    before = signal.signal(SIGNAL, handler)
    try:
        yield
    finally:
        signal.signal(SIGNAL, before)


@pytest.mark.parametrize(
    "handler",
    [raise_value_error, Handlers().method, Handlers(), partial(raise_value_error, "more")],
    ids=["function", "method", "object", "partial"],
)
def test_what_a_handler_raises_is_its_own(handler: Callable[..., Any]) -> None:
    with handled_by(handler):
        with pytest.raises(ValueError, match="a handler's") as raised:
            signal.raise_signal(SIGNAL)
        assert is_a_handlers(raised.value)


def test_what_is_raised_beside_a_handler_is_not() -> None:
    with handled_by(raise_value_error):
        with pytest.raises(ValueError, match="no number") as raised:
            int("no number")
        assert not is_a_handlers(raised.value)


def test_an_error_of_the_system_is_not() -> None:
    closed = socket.socket()
    closed.close()
    with pytest.raises(OSError, match="Bad file descriptor") as raised:
        closed.recv(1)
    assert not is_a_handlers(raised.value)


def test_without_a_number_it_is_not_the_systems() -> None:
    assert is_a_handlers(TimeoutError("took too long"))
