"""Log lines reach a reader if there is one; if there is none, the server does not wait for one."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import pytest

from inferwire_server.log_lines import LineHandler, let_nobody_wait

PAGE = 4096
LOST = "log lines were lost, since there was no room for them: "


class Pipe:
    """A pipe of two pages, the handler that logs into it, and its reader."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 2 * PAGE)
        self.stream: TextIO = os.fdopen(writer, "w", encoding="ascii", errors="backslashreplace")
        self.handler = LineHandler(self.stream)

    def log(self, text: str) -> None:
        """Log a line."""
        self.handler.handle(logging.LogRecord("", logging.INFO, "", 0, text, None, None))

    def read(self) -> str:
        """Read what the pipe holds."""
        return os.read(self.reader, 1 << 20).decode("ascii")

    def close(self) -> None:
        """Close both ends; one may be closed."""
        with suppress(OSError):
            os.close(self.reader)
        self.stream.close()


@pytest.fixture
def pipe() -> Generator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def test_each_event_is_a_line(pipe: Pipe) -> None:
    pipe.log("one")
    pipe.log("zw\u00f6lf")
    assert pipe.read() == "one\nzw\\xf6lf\n"


def test_lines_that_nobody_reads_are_lost_and_counted_before_the_next_that_goes(pipe: Pipe) -> None:
    kept = ["a" * (PAGE - 1), "b" * (PAGE - 1)]
    for line in (*kept, "lost", "lost"):
        pipe.log(line)
    assert repr(pipe.handler).endswith(": 2 lines lost>")
    assert pipe.read() == "".join(line + "\n" for line in kept)
    pipe.log("after")
    pipe.log("later")
    assert pipe.read() == f"{LOST}2\nafter\nlater\n"
    assert repr(pipe.handler).endswith(": 0 lines lost>")


class Asked:
    """Keeps how long the handler has waited for room each time."""

    def __init__(self) -> None:
        self.waits_ms: list[float] = []

    def poll(self, wait_ms: float) -> list[tuple[int, int]]:
        """Find no room."""
        self.waits_ms.append(wait_ms)
        return []


def test_only_the_first_line_that_is_lost_waits_for_a_reader(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    monkeypatch.setattr(pipe.handler, "_room", asked)
    for _ in range(3):
        pipe.log("lost")
    assert asked.waits_ms == [100, 0, 0]


def test_what_is_told_of_lost_lines_may_have_to_wait_too(pipe: Pipe) -> None:
    for line in ("a" * (PAGE - 1), "b" * (PAGE - 1), "lost", "lost"):
        pipe.log(line)
    assert os.read(pipe.reader, PAGE - 1)
    pipe.log("lost")
    assert repr(pipe.handler).endswith(": 3 lines lost>"), "a page with a byte in it is no room"
    assert pipe.read()
    pipe.log("after")
    assert pipe.read() == f"{LOST}3\nafter\n"


def test_a_line_that_was_cut_is_ended_before_the_next(pipe: Pipe) -> None:
    pipe.log("a" * 3 * PAGE)
    assert pipe.read() == "a" * 2 * PAGE
    pipe.log("after")
    assert pipe.read() == f"\n{LOST}1\nafter\n"


def test_a_line_that_is_longer_than_a_pipe_waits_for_its_reader(pipe: Pipe) -> None:
    long = "a" * 20 * PAGE
    with ThreadPoolExecutor(1) as pool:
        logged = pool.submit(pipe.log, long)
        read = ""
        while len(read) <= len(long):
            read += pipe.read()
        logged.result()
    assert read == long + "\n"


def test_where_the_reader_has_gone_nobody_hears_of_it(pipe: Pipe) -> None:
    os.close(pipe.reader)
    for _ in range(2):
        pipe.log("lost")
    assert repr(pipe.handler).endswith(": 2 lines lost>")


def test_a_disk_that_is_full_is_waited_for_by_nobody() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        handler = LineHandler(full)
        handler.handle(logging.LogRecord("", logging.INFO, "", 0, "lost", None, None))
    assert repr(handler).endswith(": 1 lines lost>")


def test_what_is_written_past_the_log_waits_for_nobody_either_and_other_writers_do(pipe: Pipe) -> None:
    descriptor = pipe.stream.fileno()
    others = os.dup(descriptor)
    try:
        let_nobody_wait(descriptor)
        os.write(descriptor, bytes(2 * PAGE))
        with pytest.raises(BlockingIOError):
            os.write(descriptor, b"one more")
        assert os.get_blocking(others)
        assert os.get_inheritable(descriptor)
    finally:
        os.close(others)


def test_what_is_no_pipe_stays_as_it_is(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        let_nobody_wait(file.fileno())
        assert os.get_blocking(file.fileno())
    let_nobody_wait(file_that_is_closed := 1 << 20)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file_that_is_closed)
