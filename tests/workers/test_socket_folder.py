"""Where workers meet: nobody else's place, and gone with them."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from inferwire_server.crew import Crew
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.settings import Settings
from inferwire_server.workers.processes import Workers, workers_of
from inferwire_server.workers.socket_folder import socket_folder

TWO = workers_of(Settings(workers=2))
KILLED = """
import asyncio, os, signal
from inferwire_server.settings import Settings
from inferwire_server.workers.processes import workers_of
from inferwire_server.workers.socket_folder import socket_folder

async def be_killed():
    async with socket_folder(workers_of(Settings(workers=2))):
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(be_killed())
"""


@pytest.fixture(autouse=True)
def temporary(short_folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of temporary files for the test alone, by a name that it may choose."""
    folder = short_folder / getattr(request, "param", "t")
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def inside(folder: Path) -> set[Path]:
    return set(folder.iterdir())


async def test_it_is_open_to_its_user_alone_and_gone_afterwards(temporary: Path) -> None:
    mask = os.umask(0)
    try:
        async with socket_folder(TWO) as found:
            (folder,) = inside(temporary)
            (folder / "calls-1").touch()
            about = folder.lstat()
    finally:
        os.umask(mask)
    assert found == Workers(Crew(0, 2, folder, TWO.crew.token), TWO.cores)
    assert (stat.filemode(about.st_mode), about.st_uid) == ("drwx------", os.geteuid())
    assert not inside(temporary)


async def test_it_is_gone_where_the_server_fails(temporary: Path) -> None:
    with pytest.raises(ServingError):
        async with socket_folder(TWO):
            raise invalid_input("this cannot be served")
    assert not inside(temporary)


@pytest.mark.parametrize("workers", [Workers(), Workers(Crew(1, 2, Path("told"), "token"))], ids=["alone", "follower"])
async def test_who_has_no_followers_makes_none(temporary: Path, workers: Workers) -> None:
    async with socket_folder(workers) as found:
        assert found == workers
        assert not inside(temporary)


async def test_each_server_has_its_own_and_removes_what_a_killed_one_has_left(temporary: Path) -> None:
    async with socket_folder(TWO) as one:
        killed = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED)
        assert await killed.wait() == -signal.SIGKILL
        (left,) = inside(temporary) - {one.crew.folder}
        async with socket_folder(TWO) as another:
            assert inside(temporary) == {one.crew.folder, another.crew.folder}
        assert left not in inside(temporary)


@pytest.mark.parametrize(
    ("temporary", "why"),
    [("t" * 100, "AF_UNIX path too long"), ("a,b", "gRPC takes a comma for the end of a path")],
    indirect=["temporary"],
    ids=["long", "comma"],
)
async def test_a_path_that_is_none_for_sockets_is_refused(temporary: Path, why: str) -> None:
    with pytest.raises(ServingError) as refused:
        async with socket_folder(TWO):
            raise AssertionError
    assert refused.value.message == (
        f"--workers needs a folder for temporary files that may have sockets in it, and '{temporary}' is none: {why}; "
        "name another with TMPDIR"
    )
    assert not inside(temporary)


async def test_where_temporary_files_have_no_place_a_server_has_no_workers(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "gone"))
    with pytest.raises(ServingError, match="--workers needs a folder for temporary files, which TMPDIR names"):
        async with socket_folder(TWO):
            raise AssertionError
