"""How much is borne of what brings no call further: `test_connection_limits` says which frames those are."""

from __future__ import annotations

import pytest

from inferwire_server.transport.http2.chatter import Chatter
from inferwire_server.transport.http2.frames import ConnectionFailed, ErrorCode

MOST, MOST_SETTINGS = 1000, 100


def test_so_many_idle_frames_are_borne_until_data_goes_out() -> None:
    chatter = Chatter()
    for sent in (0, 1, 1_000_000):
        for _ in range(MOST):
            chatter.count_idle(sent)
    with pytest.raises(ConnectionFailed) as failed:
        chatter.count_idle(1_000_000)
    assert failed.value.code is ErrorCode.ENHANCE_YOUR_CALM


def test_time_alone_lets_settings_begin_again() -> None:
    chatter = Chatter()
    for _ in range(MOST_SETTINGS):
        chatter.count_settings()
    chatter.idle_frames = 0
    with pytest.raises(ConnectionFailed):
        chatter.count_settings()
    chatter.forget()
    chatter.count_settings()


def test_it_says_how_much_there_was() -> None:
    chatter = Chatter()
    chatter.count_idle(0)
    chatter.count_settings()
    assert repr(chatter) == "<Chatter: 1 frames that bring nothing further, 1 of settings>"
