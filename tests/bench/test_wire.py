"""A wire with a delay and a rate: what it says of itself, and that all comes through it, and an end behind that."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import closing, suppress
from random import Random

import pytest
from tests.bench.wire import HOST, Lane, Wire

LONG = Random(0).randbytes(10_000_000)
LIMIT_S = 30.0


@pytest.fixture
def listener() -> Generator[socket.socket]:
    with closing(socket.create_server((HOST, 0))) as opened:
        opened.settimeout(LIMIT_S)
        yield opened


def received(connection: socket.socket) -> bytes:
    """Receive until the end."""
    connection.settimeout(LIMIT_S)
    came = bytearray()
    while data := connection.recv(1 << 20):
        came += data
    return bytes(came)


def test_it_says_what_it_is_and_how_much_it_carries() -> None:
    assert str(Wire(0.5, 1000)) == "0.5 ms, 1,000 Mbit/s"
    assert Wire(20, 8).most_per_second(1000) == 1000


def test_bytes_come_one_behind_the_other_and_half_a_round_trip_later() -> None:
    lane = Lane(Wire(round_trip_ms=200, mbit=8))
    assert lane.arrival(500_000, now=10.0) == pytest.approx(10.6)
    assert lane.arrival(500_000, now=10.1) == pytest.approx(11.1)
    assert lane.arrival(0, now=20.0) == pytest.approx(20.1)


@pytest.mark.parametrize("mbit", [1_000, 10_000])
def test_all_comes_through_both_ways_and_the_end_behind_it(listener: socket.socket, mbit: int) -> None:
    with Wire(2, mbit).to(listener.getsockname()[1]) as port:
        near = socket.create_connection((HOST, port), LIMIT_S)
        with closing(near):
            # It is sent before anybody has answered at the other end.
            sending = threading.Thread(target=near.sendall, args=(LONG,))
            sending.start()
            far, _ = listener.accept()
            far.settimeout(LIMIT_S)
            came = bytearray()
            while len(came) < len(LONG):
                came += far.recv(1 << 20)
            sending.join()
            assert came == LONG
            with closing(far):
                far.sendall(LONG)
            assert received(near) == LONG


def test_a_port_where_nobody_listens_is_told_by_an_end(listener: socket.socket) -> None:
    with Wire(0, 1000).to(listener.getsockname()[1]) as port:
        listener.close()
        with closing(socket.create_connection((HOST, port), LIMIT_S)) as near, suppress(ConnectionResetError):
            assert received(near) == b""


def test_what_is_on_its_way_to_who_has_gone_is_dropped(
    listener: socket.socket, capfd: pytest.CaptureFixture[str]
) -> None:
    with Wire(20, 1_000).to(listener.getsockname()[1]) as port:
        with closing(socket.create_connection((HOST, port), LIMIT_S)) as near:
            near.sendall(b"come")
            far, _ = listener.accept()
            assert far.recv(4) == b"come"
            far.sendall(LONG[: 1 << 20])
        with closing(far), suppress(ConnectionResetError):
            assert received(far) == b""
        with closing(socket.create_connection((HOST, port), LIMIT_S)):
            listener.accept()[0].close()
    assert capfd.readouterr().err == ""
