"""Segments of shared memory: what is looked at before anything is mapped, and that views keep a mapping alive."""

from __future__ import annotations

import os
from collections.abc import Callable
from mmap import ALLOCATIONGRANULARITY
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

import pytest

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.host.shared_segments import SharedSegments

PAGE = ALLOCATIONGRANULARITY
CONTENT = bytes(range(256)) * (3 * PAGE // 256)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as the system shows shared memory, with one segment of three pages."""
    (tmp_path / "demo_one").write_bytes(CONTENT)
    return tmp_path


@pytest.fixture
def segments(folder: Path) -> SharedSegments:
    return SharedSegments(["/demo_", "other"], folder)


def failure(call: Callable[[], object]) -> tuple[Code, str]:
    with pytest.raises(ServingError) as caught:
        call()
    return caught.value.code, caught.value.message


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("key", ["demo_one", "/demo_one", "//demo_one"])
@pytest.mark.parametrize(("offset", "byte_size"), [(0, 3 * PAGE), (0, 1), (7, PAGE), (PAGE, PAGE), (2 * PAGE + 1, 5)])
def test_what_was_written_is_seen_where_it_lies(
    segments: SharedSegments, folder: Path, key: str, offset: int, byte_size: int
) -> None:
    segment = segments.open(key, offset, byte_size)
    view = segment.view(0, byte_size)
    assert bytes(view) == CONTENT[offset : offset + byte_size]
    assert view.readonly
    with (folder / "demo_one").open("r+b") as file:
        file.seek(offset)
        file.write(b"!")
    assert view[:1] == b"!"
    assert repr(segment) == f"<Segment of '{key}'>"


@pytest.mark.parametrize("left", [0, 1])
def test_where_no_more_files_can_be_opened_it_is_not_the_key_that_is_wrong(segments: SharedSegments, left: int) -> None:
    next_file = os.dup(0)
    os.close(next_file)
    soft, hard = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (next_file + left, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            segments.open("demo_one", 0, 1)
    finally:
        setrlimit(RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("data", [b"abc", memoryview(b"abcdef")[::1][1:4], b""])
def test_what_is_written_is_seen_by_others(segments: SharedSegments, folder: Path, data: bytes | memoryview) -> None:
    written = segments.open("demo_one", PAGE + 3, 10).write(2, data)
    assert written == data
    assert written.readonly
    assert (folder / "demo_one").read_bytes() == CONTENT[: PAGE + 5] + data + CONTENT[PAGE + 5 + len(data) :]


def test_it_is_mapped_for_as_long_as_it_is_looked_at(segments: SharedSegments, folder: Path) -> None:
    segment = segments.open("demo_one", 0, PAGE)
    view = segment.view(0, 4)
    del segment
    assert is_mapped(folder / "demo_one")
    assert bytes(view) == CONTENT[:4]
    del view
    assert not is_mapped(folder / "demo_one")


@pytest.mark.parametrize(
    ("key", "code", "sentence"),
    [
        ("", Code.INVALID_INPUT, "shared memory key '' is no key, expected a name with '/' at its start or not at all"),
        ("/", Code.INVALID_INPUT, "shared memory key '/' is no key"),
        ("demo_/../demo_one", Code.INVALID_INPUT, "shared memory key 'demo_/../demo_one' is no key"),
        ("..", Code.INVALID_INPUT, "shared memory key '..' is no key"),
        (".", Code.INVALID_INPUT, "shared memory key '.' is no key"),
        ("/demo_one\0", Code.INVALID_INPUT, "shared memory key '/demo_one\\x00' is no key"),
        ("demo", Code.PERMISSION_DENIED, "shared memory key 'demo' begins with none of the prefixes"),
        ("x/demo_one", Code.INVALID_INPUT, "shared memory key 'x/demo_one' is no key"),
        (" demo_one", Code.PERMISSION_DENIED, "shared memory key ' demo_one' begins with none of the prefixes"),
        (
            "demo_two",
            Code.INVALID_INPUT,
            "Unable to open shared memory region: 'demo_two': No such file or directory",
        ),
        ("demo_link", Code.INVALID_INPUT, "Unable to open shared memory region: 'demo_link': Too many levels"),
        ("demo_folder", Code.INVALID_INPUT, "Unable to open shared memory region: 'demo_folder': Is a directory"),
        ("demo_pipe", Code.INVALID_INPUT, "shared memory key 'demo_pipe' is something else, expected shared memory"),
        ("demo_" + "x" * 255, Code.INVALID_INPUT, "Unable to open shared memory region: 'demo_xxx"),
    ],
)
def test_other_keys_are_refused(segments: SharedSegments, folder: Path, key: str, code: Code, sentence: str) -> None:
    (folder / "demo_link").symlink_to("demo_one")
    (folder / "demo_folder").mkdir()
    os.mkfifo(folder / "demo_pipe")
    found, message = failure(lambda: segments.open(key, 0, 1))
    assert found is code
    assert message.startswith(sentence)


@pytest.mark.parametrize(
    ("offset", "byte_size", "sentence"),
    [
        (0, 3 * PAGE + 1, f"has {3 * PAGE} bytes, expected {3 * PAGE + 1} or more for offset 0 and byte size"),
        (3 * PAGE, 1, f"has {3 * PAGE} bytes, expected {3 * PAGE + 1} or more"),
        (2**63, 2**63, f"has {3 * PAGE} bytes, expected {2**64} or more"),
        (0, 0, "has offset 0 and byte size 0, expected an offset from 0 and a size from 1 on"),
        (-1, 5, "has offset -1 and byte size 5"),
    ],
)
def test_a_part_that_is_not_there_is_refused_before_anything_is_mapped(
    segments: SharedSegments, folder: Path, offset: int, byte_size: int, sentence: str
) -> None:
    code, message = failure(lambda: segments.open("demo_one", offset, byte_size))
    assert code is Code.INVALID_INPUT
    assert message.startswith(f"shared memory key 'demo_one' {sentence}")
    assert not is_mapped(folder / "demo_one")


def test_pages_that_nobody_has_written_to_are_made_when_it_is_opened(segments: SharedSegments, folder: Path) -> None:
    with (folder / "demo_sparse").open("wb") as file:
        file.truncate(64 * PAGE)
    assert (folder / "demo_sparse").stat().st_blocks == 0
    segments.open("demo_sparse", PAGE, 32 * PAGE)
    assert (folder / "demo_sparse").stat().st_blocks * 512 >= 32 * PAGE


def test_one_that_was_cut_shorter_is_not_touched(segments: SharedSegments, folder: Path) -> None:
    segment = segments.open("demo_one", PAGE, 2 * PAGE)
    os.truncate(folder / "demo_one", PAGE + 1)
    for call in (lambda: segment.view(0, 1), lambda: segment.write(0, b"!")):
        assert failure(call) == (
            Code.INVALID_INPUT,
            f"shared memory key 'demo_one' has {PAGE + 1} bytes by now, expected the {3 * PAGE} it was registered with",
        )


def test_any_key_is_taken_where_the_operator_says_so(folder: Path) -> None:
    assert bytes(SharedSegments(["/"], folder).open("demo_one", 1, 1).view(0, 1)) == b"\1"


@pytest.mark.parametrize("prefix", ["/a/b", "a/", ""])
def test_a_prefix_that_no_key_has_or_nobody_chose_is_refused(prefix: str) -> None:
    assert failure(lambda: SharedSegments(["good", prefix])) == (
        Code.INVALID_INPUT,
        f"--shared-memory is '{prefix}', expected what keys begin with, '/' at most first",
    )
