"""Long documents: Python looks for no garbage while it reads them."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

import orjson
import pytest

from inferwire_server.errors import ServingError
from inferwire_server.service.values import ServedModel
from inferwire_server.transport.rest.oip_request import parse_long

MODEL = ServedModel("m")
MANY_ARRAYS = b'{"inputs":[],"of nobody":[%b1]}' % (b"[]," * 200_000)


@contextmanager
def looks() -> Generator[list[str]]:
    """Give what is told of looks for garbage inside the block."""
    told: list[str] = []

    def tell(phase: str, _: dict[str, int]) -> None:
        told.append(phase)

    gc.callbacks.append(tell)
    try:
        yield told
    finally:
        gc.callbacks.remove(tell)


def test_no_garbage_is_looked_for_while_arrays_are_read() -> None:
    with looks() as told:
        parse_long(MANY_ARRAYS, MODEL)
    assert told.count("start") <= 1  # once all is read
    assert gc.isenabled()


def test_garbage_is_looked_for_again_behind_a_document_that_is_none() -> None:
    with pytest.raises(ServingError):
        parse_long(MANY_ARRAYS[:-1], MODEL)
    assert gc.isenabled()


def test_where_no_garbage_was_looked_for_none_is() -> None:
    gc.disable()
    try:
        parse_long(MANY_ARRAYS, MODEL)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_one_that_there_is_no_memory_for_is_not_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Memory is not taken away for real: orjson says so where it finds no room to begin, and crashes later on.
    def find_no_room(document: bytes) -> object:
        raise orjson.JSONDecodeError("Not enough memory to allocate buffer for parsing", document.decode(), 0)

    monkeypatch.setattr(orjson, "loads", find_no_room)
    with pytest.raises(MemoryError, match="Not enough memory"):
        parse_long(MANY_ARRAYS, MODEL)
