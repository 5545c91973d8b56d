"""A process's own folder: gone with it, and found where it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import closing
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

import pytest

from inferwire_server.errors import ServingError
from inferwire_server.host.own_folder import OwnFolder, remove_left_behind, temporary_files_for

PROGRAM = """
from inferwire_server.host.own_folder import OwnFolder
folder = OwnFolder()
(folder.path / "inside").mkdir()
(folder.path / "inside" / "file").write_bytes(b"content")
print(folder.path, flush=True)
input()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of temporary files for the test alone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_it_is_there_until_it_is_closed(temporary: Path) -> None:
    folder = OwnFolder()
    assert folder.path.parent == temporary
    assert repr(folder) == f"<OwnFolder: {folder.path}>"
    remove_left_behind()
    assert folder.path.is_dir()
    folder.close()
    assert not any(temporary.iterdir())


def test_what_removes_old_temporary_files_sees_that_it_is_in_use(temporary: Path) -> None:
    with closing(OwnFolder()) as folder:
        descriptor = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with pytest.raises(BlockingIOError):
                flock(descriptor, LOCK_EX | LOCK_NB)
        finally:
            os.close(descriptor)


def test_one_that_nobody_has_is_gone(temporary: Path) -> None:
    OwnFolder()
    assert not any(temporary.iterdir())


@pytest.mark.parametrize("named", ["nowhere/x", "file"])
def test_where_the_folder_that_is_named_cannot_be_used_no_other_is_taken(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    (temporary / "file").touch()
    monkeypatch.setenv("TMPDIR", str(temporary / named))
    with (
        pytest.raises(ServingError, match=f"--workers needs a folder .* TMPDIR is '{temporary / named}'"),
        temporary_files_for("--workers"),
    ):
        OwnFolder()


@pytest.mark.parametrize("named", ["", ".", "{}/", "{}/../{}"])
def test_a_folder_may_be_named_in_any_way(temporary: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.chdir(temporary)
    monkeypatch.setenv("TMPDIR", named.replace("/{}", f"/{temporary.name}").replace("{}", str(temporary)))
    with temporary_files_for("--workers"):
        folder = OwnFolder()
    assert named == "" or folder.path.parent.samefile(temporary)
    folder.close()


def test_what_a_killed_process_has_left_is_removed_and_what_a_living_one_uses_is_not(temporary: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    folders: list[Path] = []
    for process in processes:
        assert process.stdout is not None
        folders.append(Path(process.stdout.readline().strip()))
    killed, living = processes
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert all((folder / "inside" / "file").exists() for folder in folders)
    remove_left_behind()
    assert [folder.exists() for folder in folders] == [False, True]
    living.kill()
    living.communicate()
    remove_left_behind()
    assert not any(temporary.iterdir())


def test_what_is_nobodys_mark_is_left_alone(temporary: Path) -> None:
    left = OwnFolder()
    (mark,) = left.path.iterdir()
    (temporary / "inferwire-unmarked").mkdir()
    (temporary / "inferwire-file").touch()
    other = temporary / "other"
    other.mkdir()
    (other / mark.name).touch()
    (temporary / "inferwire-link").symlink_to(other)
    linked = temporary / "inferwire-linked-mark"
    linked.mkdir()
    (linked / mark.name).symlink_to(other / mark.name)
    before = sorted(temporary.rglob("*"))
    remove_left_behind()
    assert sorted(temporary.rglob("*")) == before
    left.close()
