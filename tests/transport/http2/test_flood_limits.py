"""How much is borne of what brings no call further: `test_connection_limits` says which frames those are."""

from __future__ import annotations

import pytest

from inferwire_server.transport.http2.flood_limits import FloodLimits
from inferwire_server.transport.http2.frames import ConnectionFailed, ErrorCode

MOST, MOST_SETTINGS = 1000, 100


def test_so_many_idle_frames_are_borne_until_data_goes_out() -> None:
    flood_limits = FloodLimits()
    for sent in (0, 1, 1_000_000):
        for _ in range(MOST):
            flood_limits.count_idle(sent)
    with pytest.raises(ConnectionFailed) as failed:
        flood_limits.count_idle(1_000_000)
    assert failed.value.code is ErrorCode.ENHANCE_YOUR_CALM


def test_time_alone_lets_settings_begin_again() -> None:
    flood_limits = FloodLimits()
    for _ in range(MOST_SETTINGS):
        flood_limits.count_settings()
    flood_limits.idle_frames = 0
    with pytest.raises(ConnectionFailed):
        flood_limits.count_settings()
    flood_limits.forget()
    flood_limits.count_settings()


def test_it_says_how_much_there_was() -> None:
    flood_limits = FloodLimits()
    flood_limits.count_idle(0)
    flood_limits.count_settings()
    assert repr(flood_limits) == "<FloodLimits: 1 frames that bring nothing further, 1 of settings>"
