"""Files that commands write are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pytest

from inferwire_cli.files import write_whole
from inferwire_cli.terminal import CommandError


def write(file: BinaryIO) -> None:
    file.write(b"new")


def fail(file: BinaryIO) -> None:
    file.write(b"half of it")
    raise OSError(28, "No space left on device")


def interrupt(file: BinaryIO) -> None:
    file.write(b"half of it")
    raise KeyboardInterrupt


def test_a_file_takes_the_place_of_the_one_of_before_behind_links_and_with_its_mode(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"of before")
    (tmp_path / "file").chmod(0o604)
    (tmp_path / "link").symlink_to("file")
    write_whole("--save", tmp_path / "link", write)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o604


def test_a_new_file_may_be_read_by_those_who_may_read_others(tmp_path: Path) -> None:
    write_whole("--save", tmp_path / "file", write)
    (tmp_path / "other").touch()
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("before", [None, b"of before"])
def test_one_that_is_not_written_whole_is_not_there(tmp_path: Path, before: bytes | None) -> None:
    if before:
        (tmp_path / "file").write_bytes(before)
    sentence = f"--save is '{tmp_path / 'file'}', which cannot be written: No space left on device"
    with pytest.raises(CommandError, match=sentence):
        write_whole("--save", tmp_path / "file", fail)
    with pytest.raises(KeyboardInterrupt):
        write_whole("--save", tmp_path / "file", interrupt)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == ([before] if before else [])


def test_what_is_no_file_is_written_to_as_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole("--save", tmp_path / "pipe", write)
        assert os.read(reading, 10) == b"new"
    finally:
        os.close(reading)
    with pytest.raises(CommandError, match="No space left on device"):
        write_whole("--save", Path("/dev/full"), write)
