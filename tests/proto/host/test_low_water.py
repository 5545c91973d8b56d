"""Low-water marks: who waits sleeps until a good part of what is to come is there, and never past the end."""

from __future__ import annotations

import fcntl
import select
import socket
import struct
import sys
import termios
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.waiting import LIMIT_S, wait_until

from inferwire_proto.host.low_water import LEAST_BYTES, MOST_BYTES, LowWater, low_water_on

Pair = tuple[socket.socket, socket.socket]


@contextmanager
def connected(source: str) -> Generator[Pair]:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname(), source_address=(source, 0)) as sender,
        listener.accept()[0] as receiver,
    ):
        yield sender, receiver


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Both ends of a connection, of another address each, as those of two hosts have."""
    with connected("127.0.0.2") as pair:
        yield pair


def is_readable(receiver: socket.socket) -> bool:
    return bool(select.select([receiver], [], [], 0)[0])


def come(receiver: socket.socket, count: int) -> None:
    """Wait until so many bytes have come to the socket."""
    wait_until(
        lambda: int.from_bytes(fcntl.ioctl(receiver.fileno(), termios.FIONREAD, bytes(4)), sys.byteorder) >= count
    )


def test_who_waits_is_woken_once_a_good_part_has_come(pair: Pair) -> None:
    sender, receiver = pair
    low_water_on(receiver).expect(10 * MOST_BYTES)

    sender.sendall(bytes(MOST_BYTES - 1))
    come(receiver, MOST_BYTES - 1)
    assert not is_readable(receiver)

    sender.sendall(b"x")
    come(receiver, MOST_BYTES)
    assert is_readable(receiver)


def test_who_expects_nothing_is_woken_by_a_single_byte(pair: Pair) -> None:
    sender, receiver = pair
    low_water = low_water_on(receiver)
    low_water.expect(10 * MOST_BYTES)
    low_water.expect(0)

    sender.sendall(b"x")
    come(receiver, 1)
    assert is_readable(receiver)


def test_the_end_wakes_who_expects_more(pair: Pair) -> None:
    sender, receiver = pair
    low_water_on(receiver).expect(10 * MOST_BYTES)

    sender.shutdown(socket.SHUT_WR)

    assert select.select([receiver], [], [], LIMIT_S)[0]


def marks_for(*expected: int, has_tls: bool = False) -> list[int]:
    marks: list[int] = []
    low_water = LowWater(marks.append, has_tls=has_tls)
    for count in expected:
        low_water.expect(count)
    return marks


def test_the_mark_follows_what_is_expected() -> None:
    much, some, little = MOST_BYTES + 1, MOST_BYTES - 1, LEAST_BYTES - 1
    assert marks_for(much, some, LEAST_BYTES, little, 0) == [MOST_BYTES, some, LEAST_BYTES, 1]


def test_the_system_is_not_asked_for_what_is_so_already() -> None:
    assert marks_for(0, 1, LEAST_BYTES - 1) == []
    assert marks_for(10 * MOST_BYTES, 9 * MOST_BYTES, 0, 0) == [MOST_BYTES, 1]


def test_with_tls_a_record_may_have_come_already() -> None:
    record = 1 << 14
    (mark,) = marks_for(MOST_BYTES + LEAST_BYTES, has_tls=True)
    assert mark <= MOST_BYTES + LEAST_BYTES - record
    assert marks_for(record + LEAST_BYTES, has_tls=True) == []


def test_a_connection_within_the_host_has_none() -> None:
    with connected("127.0.0.1") as (_, receiver):
        low_water_on(receiver).expect(10 * MOST_BYTES)
        assert receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1


def test_a_connection_that_has_ended_already_has_none(pair: Pair) -> None:
    sender, receiver = pair
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sender.close()
    select.select([receiver], [], [], LIMIT_S)
    low_water_on(receiver).expect(10 * MOST_BYTES)
    assert receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1


def test_a_unix_socket_has_none(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as receiver:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        receiver.connect(str(tmp_path / "socket"))
        low_water = low_water_on(receiver)
        low_water.expect(10 * MOST_BYTES)
        assert receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1
        assert repr(low_water) == "<LowWater: 1 bytes>"


def test_a_socket_that_was_closed_meanwhile_is_left_alone(pair: Pair) -> None:
    _, receiver = pair
    low_water = low_water_on(receiver)
    receiver.close()
    low_water.expect(10 * MOST_BYTES)
