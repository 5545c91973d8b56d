"""Files that somebody names: what has no end, or nothing in it, is told and not waited for."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from inferwire_proto.host.bounded_files import read_bounded, read_text


def why_not(read: Callable[[], object]) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - what it says is looked at
        read()
    return caught.value.strerror or ""


@pytest.mark.usefixtures("little_memory")
def test_a_file_is_read_up_to_a_bound(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345678")
    assert read_bounded(file, 8) == b"12345678"
    os.truncate(file, (3 << 30) + 1)
    assert why_not(lambda: read_bounded(file, 2 << 20)) == "it has 3,073 MiB, expected at most 2"


def test_files_without_a_size_are_read_to_their_end() -> None:
    status = Path("/proc/self/status")
    assert status.stat().st_size == 0
    assert read_bounded(status).startswith(b"Name:")


@pytest.mark.usefixtures("little_memory")
def test_a_device_without_an_end_is_named_as_one() -> None:
    assert why_not(lambda: read_bounded(Path("/dev/zero"), 2 << 20)) == "it is a device with more than 2 MiB"


@pytest.mark.parametrize("size", [0, 5, 3 << 20])
def test_a_pipe_is_read_to_its_end_whoever_comes_first(tmp_path: Path, size: int) -> None:
    os.mkfifo(tmp_path / "pipe")
    writing = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(bytes(size),), daemon=True)
    writing.start()
    assert read_bounded(tmp_path / "pipe") == bytes(size)
    writing.join()


def test_a_pipe_of_the_shell_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"key")
        os.close(writing)
        assert read_bounded(Path(f"/dev/fd/{reading}")) == b"key"
    finally:
        os.close(reading)


@pytest.mark.usefixtures("little_memory")
def test_what_is_read_again_and_again_is_a_file_or_a_link_to_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "further").symlink_to("link")
    for name, said in (("pipe", "pipe"), ("/dev/zero", "device"), ("/dev/null", "device")):
        path = tmp_path / name
        assert why_not(lambda path=path: read_bounded(path, is_read_again=True)) == f"it is a {said}, expected a file"
    for name in ("file", "link", "further"):
        assert read_bounded(tmp_path / name, is_read_again=True) == b"content"


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    silent = "it is a pipe, and nothing came out of it for 0.01 s"
    assert why_not(lambda: read_bounded(tmp_path / "pipe", silence_s=0.01)) == silent
    writing = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        os.write(writing, b"half of it")
        assert why_not(lambda: read_bounded(tmp_path / "pipe", silence_s=0.01)) == silent
    finally:
        os.close(writing)


def test_a_pipe_without_an_end_is_named_as_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writing = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        os.write(writing, b"123456789")
        assert why_not(lambda: read_bounded(tmp_path / "pipe", 8)) == "it is a pipe with more than 1 MiB"
    finally:
        os.close(writing)


@pytest.mark.parametrize(("name", "reason"), [("absent", "No such file or directory"), (".", "Is a directory")])
def test_what_cannot_be_read_says_so_in_the_systems_words(tmp_path: Path, name: str, reason: str) -> None:
    assert why_not(lambda: read_bounded(tmp_path / name)) == reason


def test_it_does_without_what_windows_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delattr(os, "O_NONBLOCK")
    monkeypatch.delattr(select, "poll")
    (tmp_path / "file").write_bytes(b"content")
    assert read_bounded(tmp_path / "file") == b"content"
    assert read_bounded(Path(os.devnull)) == b""


def test_a_text_is_read_without_the_mark_that_windows_puts_before_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes("\ufeffcafé\r\n".encode())
    assert read_text(tmp_path / "file") == "café\r\n"


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"\xff\xfea\x00", "line 1, column 1"),
        ("é = 1\nü = ".encode() + b"\xe4\n\xe4", "line 2, column 5"),
    ],
)
def test_what_is_no_text_is_told_by_its_line(tmp_path: Path, content: bytes, where: str) -> None:
    (tmp_path / "file").write_bytes(content)
    told = f"{where}: this is not UTF-8, expected a text file that is"
    assert why_not(lambda: read_text(tmp_path / "file")) == told
