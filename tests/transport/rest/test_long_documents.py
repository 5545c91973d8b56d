"""Long documents: Python looks for no garbage while it reads them."""

from __future__ import annotations

import gc
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from resource import RLIMIT_AS, getpagesize, getrlimit, setrlimit

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


def test_one_that_there_is_no_memory_for_is_not_malformed() -> None:
    # In a process of its own: with what others have left free, there is memory for the beginning, and orjson crashes
    # where there is none for the rest.
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        assert alone.submit(why_it_cannot_be_read).result().startswith("Not enough memory")


def why_it_cannot_be_read() -> str:
    """Read one with no more memory than it has bytes, and say what is raised."""
    document = b'{"inputs":[%b1]}' % (b"1," * (1 << 24))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = getrlimit(RLIMIT_AS)
    setrlimit(RLIMIT_AS, (pages * getpagesize() + len(document), hard))
    try:
        with pytest.raises(MemoryError) as raised:
            parse_long(document, MODEL)
    finally:
        setrlimit(RLIMIT_AS, (soft, hard))
    return str(raised.value)
