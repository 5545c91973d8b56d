"""A file in memory: seen by all that map it, and made private at its place."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferwire_proto.lent_memory import Mapping

SIZE = 10_000


@pytest.fixture
def descriptor() -> Iterator[int]:
    made = os.memfd_create("test_mapping")
    os.ftruncate(made, SIZE)
    yield made
    os.close(made)


def is_mapped() -> bool:
    return "/memfd:test_mapping" in Path("/proc/self/maps").read_text()


def test_what_one_writes_the_other_reads_until_nobody_does(descriptor: int) -> None:
    writing, reading = (Mapping(descriptor, SIZE).bytes for _ in range(2))
    writing[:] = 7
    assert (reading.size, reading.min(), reading.max()) == (SIZE, 7, 7)
    part = reading[10:20]
    del writing, reading
    assert is_mapped()
    assert bytes(part) == bytes([7] * 10)
    del part
    assert not is_mapped()


def test_it_becomes_private_where_it_is(descriptor: int) -> None:
    mapping, other = Mapping(descriptor, SIZE), Mapping(descriptor, SIZE).bytes
    shown = mapping.bytes
    shown[:] = 1
    mapping.become_private(descriptor)
    assert shown.min() == shown.max() == 1
    shown[:] = 2
    assert other.min() == other.max() == 1
    other[:] = 3
    assert shown.min() == shown.max() == 2


def test_it_can_be_read_alone_where_it_can_neither_be_mapped_anew(descriptor: int) -> None:
    mapping = Mapping(descriptor, SIZE)
    mapping.bytes[:] = 1
    mapping.become_private(-1)
    assert mapping.bytes.min() == mapping.bytes.max() == 1
    (line,) = [line for line in Path("/proc/self/maps").read_text().splitlines() if "/memfd:test_mapping" in line]
    assert line.split()[1] == "r--s"
    del mapping
    assert not is_mapped()


def test_what_is_mapped_no_more_is_not_made_private(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread may fork while another one lets go of it. Its place may then be another's."""
    mapping = Mapping(descriptor, SIZE)
    unmap = mapping._unmap

    def unmap_and_fork(address: int, byte_size: int) -> None:
        unmap(address, byte_size)
        mapping.become_private(descriptor)

    monkeypatch.setattr(mapping, "_unmap", unmap_and_fork)
    mapping.__del__()
    assert not is_mapped()


def test_it_is_an_error_where_others_would_still_see_what_is_written(descriptor: int) -> None:
    mapping = Mapping(descriptor, SIZE)
    address, mapping._address = mapping._address, 1 << 12
    with pytest.raises(OSError, match="Bad file descriptor"):
        mapping.become_private(-1)
    mapping._address = address


def test_it_says_how_large_it_is_and_where(descriptor: int) -> None:
    assert re.fullmatch(r"<Mapping of 10000 bytes at 0x[0-9a-f]+>", repr(Mapping(descriptor, SIZE)))


@pytest.mark.parametrize(("byte_size", "reason"), [(0, "Invalid argument"), (1 << 62, "Cannot allocate memory")])
def test_what_cannot_be_mapped_is_an_error_of_the_system(descriptor: int, byte_size: int, reason: str) -> None:
    with pytest.raises(OSError, match=reason):
        Mapping(descriptor, byte_size)
