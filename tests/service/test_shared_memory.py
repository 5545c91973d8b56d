"""Regions of shared memory: their names, how many there may be, and that one name has one region."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event

import pytest
from tests.waiting import LIMIT_S

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.host.shared_segments import Segment, SharedSegments
from inferwire_server.service.shared_memory import SharedMemoryService
from inferwire_server.service.values import Region, SharedPlace, SharedTensor


class HeldSegments(SharedSegments):
    """Opens nothing until it may."""

    def __init__(self, folder: Path) -> None:
        super().__init__(["/"], folder)
        self.may_open = Event()

    def open(self, key: str, offset: int, byte_size: int) -> Segment:
        assert self.may_open.wait(LIMIT_S)
        return super().open(key, offset, byte_size)


@pytest.fixture
def segments(tmp_path: Path) -> HeldSegments:
    (tmp_path / "key").write_bytes(bytes(64))
    return HeldSegments(tmp_path)


def region(name: str, key: str = "/key") -> Region:
    return Region(name, key, 0, 64)


async def test_of_two_that_register_a_name_at_once_one_has_it(segments: HeldSegments) -> None:
    service = SharedMemoryService(segments)
    calls = [asyncio.ensure_future(service.register(region("r"))) for _ in range(2)]
    await asyncio.sleep(0)
    segments.may_open.set()
    failed = [error for error in await asyncio.gather(*calls, return_exceptions=True) if error is not None]
    assert [str(error) for error in failed] == ["shared memory region 'r' already in manager: unregister it first"]
    assert service.regions() == (region("r"),)
    assert repr(service) == "<SharedMemoryService: 1 regions>"


async def test_there_are_so_many_and_no_more(segments: HeldSegments) -> None:
    segments.may_open.set()
    service = SharedMemoryService(segments, most_regions=2)
    for name in ("a", "b"):
        await service.register(region(name))
    with pytest.raises(ServingError, match="region 'c' is one too many, at most 2 can be registered") as caught:
        await service.register(region("c"))
    assert caught.value.code is Code.TOO_LARGE
    service.unregister("a")
    await service.register(region("c"))
    assert [known.name for known in service.regions()] == ["b", "c"]
    service.unregister()
    assert service.regions() == ()


@pytest.mark.parametrize(("type_name", "seen"), [("u8", b"12345678"), ("string", bytes(8))])
async def test_numbers_are_read_in_place_and_strings_as_they_were(
    segments: HeldSegments, tmp_path: Path, type_name: str, seen: bytes
) -> None:
    segments.may_open.set()
    service = SharedMemoryService(segments)
    await service.register(region("r"))
    place = SharedPlace("r", 8, 8)
    tensor = service.tensor(SharedTensor(BY_NAME[type_name], (2,), place))
    with (tmp_path / "key").open("r+b") as file:
        file.seek(8)
        file.write(b"12345678")
    assert tensor.data == seen


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (region(""), "a shared memory region has no name"),
        (region("r" * 1025), "the name of a shared memory region has 1025 characters, expected at most 1024"),
        (region("r", "none"), "Unable to open"),
    ],
)
async def test_one_that_cannot_be_is_not_kept(segments: HeldSegments, wrong: Region, sentence: str) -> None:
    segments.may_open.set()
    service = SharedMemoryService(segments)
    with pytest.raises(ServingError, match=sentence):
        await service.register(wrong)
    assert service.regions() == ()
