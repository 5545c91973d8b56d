"""How long a program lets a server be silent."""

from __future__ import annotations

import socket
from fractions import Fraction
from typing import Any

import pytest

import inferwire as ov


def test_a_program_says_how_long_connecting_may_take() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        core = ov.Core(f"127.0.0.1:{silent.getsockname()[1]}", timeouts=ov.Timeouts(connect_s=0.05))
        with pytest.raises(ov.ServerUnavailable, match=r"no answer within 0\.05 s"):
            core.served_models()


@pytest.mark.parametrize("given", [5, 5.0, {"connect_s": 5}, ov.Timeouts])
def test_what_are_no_timeouts_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"^timeouts is .+, expected an inferwire\.Timeouts$"):
        ov.Core(timeouts=given)


def test_every_number_is_taken() -> None:
    assert ov.Timeouts(Fraction(1, 2), keepalive_s=2) == ov.Timeouts(0.5, 2.0)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("given", ["5", None, 1j])
def test_what_is_no_number_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"^answer_s is .+, expected a number of seconds$"):
        ov.Timeouts(answer_s=given)


@pytest.mark.parametrize("given", [0, -1.0, 0.0001, 2e6 + 1, float("inf"), float("nan")])
def test_what_no_system_can_wait_for_is_refused(given: float) -> None:
    with pytest.raises(ValueError, match=r"^socket_s is .+, expected seconds from 0\.001 to 2000000$"):
        ov.Timeouts(socket_s=given)
