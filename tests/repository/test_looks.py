from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import without_rights

from inferwire_server.repository.looks import is_file, is_folder, is_there

Look = Callable[[Path], bool]

LOOKS: tuple[Look, ...] = (is_there, is_file, is_folder)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("file", [True, True, False]),
        ("folder", [True, False, True]),
        ("link", [True, False, True]),
        ("nothing", [False] * 3),
        ("nowhere", [False] * 3),
        ("round", [False] * 3),
        ("file/below", [False] * 3),
        ("with\0nul", [False] * 3),
    ],
)
def test_they_tell_what_is_there(tmp_path: Path, name: str, found: list[bool]) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "nowhere").symlink_to("nothing")
    (tmp_path / "round").symlink_to("round")
    assert [look(tmp_path / name) for look in LOOKS] == found


@pytest.mark.parametrize("look", LOOKS)
def test_where_nobody_may_look_they_say_so(readable_by_all: Path, look: Look) -> None:
    closed = readable_by_all / "closed"
    closed.mkdir(0o000)
    with without_rights(), pytest.raises(PermissionError):
        look(closed / "model.onnx")
