"""Following files: the repository's, and those of keys and certificates."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import watchfiles
from structlog.testing import capture_logs
from tests.conftest import without_rights

from inferwire_server.core.model_options import ModelOptions
from inferwire_server.core.versions import Latest
from inferwire_server.engine.engine import Engine, QueueOptions
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, echo_spec
from inferwire_server.host import watch as watch_module
from inferwire_server.host.follow import follow
from inferwire_server.host.watch import changes_in, changes_of
from inferwire_server.repository.catalogue import Catalogue
from inferwire_server.repository.folder import Repository
from inferwire_server.repository.loader import Loader
from inferwire_server.repository.named_models import NamedModels
from inferwire_server.tallies import Tallies


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have changes told sooner: nothing here writes for long."""
    monkeypatch.setattr(watch_module, "_QUIET_MS", 100)
    monkeypatch.setattr(watch_module, "_LOOK_S", 0.1)


@asynccontextmanager
async def following(root: Path, changes: Callable[[], AsyncGenerator[object, None]]) -> AsyncGenerator[Catalogue, None]:
    """Follow a repository of the model m."""
    catalogue, backend = Catalogue(), FakeBackend({"m": FakeModel(echo_spec("m"))})
    scan = Repository(root, Latest()).served
    with capture_logs():
        async with (
            Engine(backend, QueueOptions(), Tallies().of) as engine,
            Loader(engine, catalogue, scan, ModelOptions("")) as loader,
            asyncio.TaskGroup() as tasks,
        ):
            watch = tasks.create_task(follow(changes, loader.sync, "the repository cannot be read"))
            yield catalogue
            watch.cancel()


async def until(catalogue: Catalogue, holds: Callable[[], bool]) -> None:
    changed = asyncio.Event()
    catalogue.subscribe(changed.set)
    async with asyncio.timeout(20):
        while not holds():
            await changed.wait()
            changed.clear()


def write(root: Path, version: int, content: str) -> None:
    (root / "m" / str(version)).mkdir(parents=True, exist_ok=True)
    (root / "m" / str(version) / "model.onnx").write_text(content)


def device_of(folder: Path) -> int:
    return folder.stat().st_dev


def changes_at(root: Path) -> AsyncGenerator[object, None]:
    """Tell of changes in the repository there."""
    return changes_in(Repository(root, Latest()).folders)


async def test_versions_come_change_and_go_with_their_files(tmp_path: Path) -> None:
    root = tmp_path / "models"
    root.mkdir()
    async with following(root, partial(changes_at, root)) as catalogue:
        write(root, 1, "first")
        await until(catalogue, lambda: catalogue.versions("m") == ("1",))
        first = catalogue.find("m").require()
        write(root, 1, "changed")
        await until(catalogue, lambda: catalogue.find("m").model not in (first, None))
        write(root, 2, "second")
        await until(catalogue, lambda: [served.version for served in catalogue.statuses()] == ["2"])
        assert catalogue.versions("m") == ("2",)
        (root / "m").rename(tmp_path / "elsewhere")
        await until(catalogue, lambda: catalogue.statuses() == [])


async def test_a_repository_of_one_file_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    file.touch()
    async with following(file, partial(changes_at, file)) as catalogue:
        file.with_suffix(".new").write_text("changed")
        file.with_suffix(".new").replace(file)
        await until(catalogue, lambda: catalogue.versions("m") == ("1",))


async def test_a_repository_that_cannot_be_read_is_looked_at_again(tmp_path: Path) -> None:
    root = tmp_path / "models"
    told: asyncio.Queue[object] = asyncio.Queue()

    async def changes() -> AsyncGenerator[object, None]:
        while True:
            yield await told.get()
            told.task_done()

    async with following(root, changes) as catalogue:
        told.put_nowait("gone")
        await told.join()
        assert catalogue.statuses() == []
        write(root, 1, "back")
        told.put_nowait("back")
        await until(catalogue, lambda: catalogue.versions("m") == ("1",))


async def test_folders_that_a_change_brings_are_followed_from_then_on(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    folders = {first}

    def named() -> set[Path]:
        assert threading.current_thread() is not threading.main_thread(), "the loop stands still"
        return set(folders)

    async with asyncio.timeout(30), aclosing(changes_in(named)) as changes:
        await anext(changes)
        await told_of(changes, (first / "file").touch)
        folders.add(second)
        # Whoever looked when the first change was told may have seen nothing of it.
        (second / "early").touch()
        await anext(changes)
        await told_of(changes, (second / "late").touch)
        folders.remove(first)
        await anext(changes)  # and leave a watch that has just begun


async def told_of(changes: AsyncGenerator[object, None], touch: Callable[[], None]) -> object:
    """Change a file in what is watched, and give what is told of it."""
    touch()
    told = await anext(changes)
    assert told
    return told


async def test_what_cannot_be_read_hides_no_change_of_anything_else(readable_by_all: Path) -> None:
    for name in ("a/1", "b/1", "closed", "c/1", "d/closed", "d/1"):
        (readable_by_all / name).mkdir(parents=True)
    (readable_by_all / "d" / "back").symlink_to(readable_by_all)
    for closed in ("closed", "d/closed"):
        (readable_by_all / closed).chmod(0)
    for writable in ("", "a/1", "b/1", "c/1", "d/1"):
        (readable_by_all / writable).chmod(0o777)
    async with aclosing(changes_at(readable_by_all)) as changes:
        await anext(changes)  # what the library imports late may not be read without rights
    with without_rights():
        async with asyncio.timeout(30), aclosing(changes_at(readable_by_all)) as changes:
            await anext(changes)
            for name in "abcd":
                await told_of(changes, (readable_by_all / name / "1" / "file").touch)
            (readable_by_all / "e" / "closed").mkdir(parents=True)
            (readable_by_all / "e" / "1").mkdir()
            (readable_by_all / "e" / "closed").chmod(0)
            await anext(changes)  # what is new is watched from now on
            await told_of(changes, (readable_by_all / "e" / "1" / "file").touch)


async def test_a_folder_that_nobody_may_enter_hides_no_change_of_anything_else(readable_by_all: Path) -> None:
    write(readable_by_all, 1, "closed")
    for folder, mode in (("m/1", 0o744), ("", 0o777)):
        (readable_by_all / folder).chmod(mode)
    async with aclosing(changes_at(readable_by_all)) as changes:
        await anext(changes)  # what the library imports late may not be read without rights
    with without_rights():
        async with asyncio.timeout(30), aclosing(changes_at(readable_by_all)) as changes:
            await anext(changes)
            await told_of(changes, (readable_by_all / "file").touch)


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir])
async def test_a_name_that_is_not_utf_8_hides_no_change_of_anything_else(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    write(tmp_path, 1, "first")
    odd = tmp_path / "m" / os.fsdecode(b"\xe8")
    async with asyncio.timeout(30), aclosing(changes_at(tmp_path)) as changes:
        await anext(changes)
        make(odd)
        await anext(changes)
        await told_of(changes, (tmp_path / "m" / "1" / "model.onnx").touch)
        odd.chmod(0o700)
        await anext(changes)
        odd.rename(tmp_path / "m" / "fine")
        await anext(changes)  # the system watches again
        assert await told_of(changes, (tmp_path / "late").touch) == {(watchfiles.Change.added, f"{tmp_path}/late")}


async def test_a_name_that_is_not_utf_8_may_come_while_the_system_watches(tmp_path: Path) -> None:
    looks: list[object] = []

    def folders() -> set[Path]:
        looks.append(None)
        if len(looks) == 4:  # three as the watch begins, and then one at every look
            (tmp_path / os.fsdecode(b"\xe8")).touch()
        return {tmp_path}

    async with asyncio.timeout(30), aclosing(changes_in(folders)) as changes:
        await anext(changes)
        await anext(changes)
        await told_of(changes, (tmp_path / "file").touch)


async def test_what_other_machines_change_is_told_though_the_system_does_not_report_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def awatch(*_: Path, **_options: object) -> AsyncGenerator[object, None]:
        """Report nothing, as the system does of other machines' changes."""
        while True:
            await asyncio.sleep(0)
            yield set[object]()

    monkeypatch.setattr(watchfiles, "awatch", awatch)
    write(tmp_path, 1, "first")
    shared = {device_of(tmp_path)}
    changes = changes_in(Repository(tmp_path, Latest()).folders, lambda: shared, partial(asyncio.sleep, 0))
    with capture_logs() as logs:
        async with asyncio.timeout(30), aclosing(changes):
            await anext(changes)
            await told_of(changes, partial(write, tmp_path, 1, "changed"))
            (tmp_path / "m" / "link").symlink_to("1")
            await anext(changes)  # what is new is looked at from now on
            await told_of(changes, partial(write, tmp_path, 2, "second"))
    assert [line["event"] for line in logs] == ["changes by other machines are looked for"]


async def test_a_folder_that_other_machines_change_may_lie_behind_a_link(tmp_path: Path) -> None:
    with TemporaryDirectory(dir="/dev/shm") as volume:
        shared = {device_of(Path(volume))}
        assert device_of(tmp_path) not in shared
        changes = changes_in(Repository(tmp_path, Latest()).folders, lambda: shared, partial(asyncio.sleep, 0))
        with capture_logs() as logs:
            async with asyncio.timeout(30), aclosing(changes):
                await anext(changes)
                assert logs == []
                (tmp_path / "m").symlink_to(volume)
                await anext(changes)  # it is looked at from now on
                await told_of(changes, (Path(volume) / "file").touch)
        assert [line["event"] for line in logs] == ["changes by other machines are looked for"]


@pytest.mark.parametrize("is_link", [False, True])
async def test_a_folder_that_takes_the_place_of_the_one_that_is_watched_is_followed(
    tmp_path: Path, is_link: bool
) -> None:
    for release in ("1", "2"):
        write(tmp_path / release, 1, "as good as the other")
    root = tmp_path / "models"
    root.symlink_to("1") if is_link else (tmp_path / "1").rename(root)
    async with asyncio.timeout(30), aclosing(changes_at(root)) as changes:
        await anext(changes)
        if is_link:
            move_link_to(root, "2")
        else:
            root.rename(tmp_path / "old")
            (tmp_path / "2").rename(root)
        await anext(changes)
        await told_of(changes, (root / "m" / "1" / "file").touch)


async def test_what_a_link_in_a_repository_leads_to_is_followed_when_it_leads_elsewhere(tmp_path: Path) -> None:
    for release in ("1", "2"):
        write(tmp_path / release, 1, "as good as the other")
    (root := tmp_path / "models").mkdir()
    (root / "kept").symlink_to("../current/m")
    (tmp_path / "current").symlink_to("1")
    async with asyncio.timeout(30), aclosing(changes_at(root)) as changes:
        await anext(changes)
        await told_of(changes, (tmp_path / "1" / "m" / "1" / "file").touch)
        move_link_to(tmp_path / "current", "2")
        await anext(changes)
        await told_of(changes, (tmp_path / "2" / "m" / "1" / "file").touch)
        (root / "new").symlink_to("../1/m")
        await anext(changes)  # a watch that goes on behind it has begun
        await told_of(changes, (tmp_path / "1" / "m" / "1" / "another").touch)


async def test_a_file_that_lies_elsewhere_is_followed(tmp_path: Path) -> None:
    for release in ("1", "2"):
        write(tmp_path / release, 1, release)
    model = tmp_path / "1" / "m" / "1" / "model.onnx"
    (root := tmp_path / "models").mkdir()
    (root / "m.onnx").symlink_to(model)
    async with asyncio.timeout(30), aclosing(changes_at(root)) as changes:
        await anext(changes)
        model.write_text("longer")
        await anext(changes)
        model.write_text("sooner")  # and no longer
        await anext(changes)
        (tmp_path / "2" / "m" / "1" / "model.onnx").replace(model)
        await anext(changes)
        model.unlink()
        await anext(changes)


async def test_a_folder_that_has_gone_is_followed_when_it_is_back(tmp_path: Path) -> None:
    root = tmp_path / "models"
    root.mkdir()
    async with asyncio.timeout(30), aclosing(changes_at(root)) as changes:
        await anext(changes)
        root.rmdir()
        await anext(changes)
        root.mkdir()
        await anext(changes)
        await told_of(changes, (root / "file").touch)


@pytest.mark.parametrize("is_absolute", [True, False])
async def test_a_repository_is_followed_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_absolute: bool
) -> None:
    root = tmp_path / ".venv" / "models"
    root.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    named = root if is_absolute else Path(".venv/../.venv/models")
    async with asyncio.timeout(30), aclosing(changes_at(named)) as changes:
        await anext(changes)
        await told_of(changes, (root / "m.onnx").touch)


async def test_where_there_is_nothing_to_follow_nothing_fails() -> None:
    async with asyncio.timeout(30), aclosing(changes_in(NamedModels({}, Latest()).folders)) as changes:
        await anext(changes)


async def test_what_editors_and_version_control_write_for_themselves_is_no_change(tmp_path: Path) -> None:
    for name in (".git", "m"):
        (tmp_path / name).mkdir()
    async with asyncio.timeout(30), aclosing(changes_at(tmp_path)) as changes:
        await anext(changes)
        (tmp_path / ".git" / "index").touch()
        (tmp_path / "m" / ".inferwire.toml.swp").touch()
        (tmp_path / "m" / "inferwire.toml").touch()
        told = await anext(changes)
        assert told == {(watchfiles.Change.added, str(tmp_path / "m" / "inferwire.toml"))}


async def test_a_watch_that_the_system_does_not_give_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def awatch(*_: Path, ignore_permission_denied: bool, **_options: object) -> AsyncGenerator[object, None]:
        """Do as the library does where the system's limit is reached."""
        if not ignore_permission_denied:
            raise OSError("OS file watch limit reached")
        while True:
            await asyncio.sleep(0)
            yield set[object]()

    monkeypatch.setattr(watchfiles, "awatch", awatch)
    async with asyncio.timeout(30), aclosing(changes_at(tmp_path)) as changes:
        with pytest.raises(OSError, match="OS file watch limit reached"):
            await anext(changes)


def write_in_place(keys: Path) -> None:
    (keys / "api-keys").write_text("two")


def write_what_looks_the_same(keys: Path) -> None:
    before = (keys / "api-keys").stat()
    write_in_place(keys)
    os.utime(keys / "api-keys", ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_file(keys: Path) -> None:
    (keys / "next").write_text("two")
    (keys / "next").replace(keys / "api-keys")


def let_it_be_read(keys: Path) -> None:
    (keys / "api-keys").chmod(0o640)


def remove_file(keys: Path) -> None:
    (keys / "api-keys").unlink()


def make_folder_anew(keys: Path) -> None:
    shutil.rmtree(keys)
    keys.mkdir()
    write_in_place(keys)


def move_link_to(folder: Path, next_folder: str) -> None:
    (folder.parent / "next").symlink_to(next_folder)
    (folder.parent / "next").replace(folder)


def keys_in_a_folder(root: Path) -> tuple[Path, Path]:
    """Give the file that is followed, and the folder in which it is renewed."""
    (root / "keys").mkdir()
    (root / "keys" / "api-keys").write_text("one")
    return root / "keys" / "api-keys", root / "keys"


def keys_behind_a_link(root: Path) -> tuple[Path, Path]:
    """Give a file that is a link into another folder, where it is renewed."""
    file, folder = keys_in_a_folder(root)
    (root / "elsewhere").mkdir()
    (root / "elsewhere" / "api-keys").symlink_to(file)
    return root / "elsewhere" / "api-keys", folder


RENEWALS = (
    write_in_place,
    write_what_looks_the_same,
    replace_file,
    let_it_be_read,
    remove_file,
    make_folder_anew,
)


@pytest.mark.parametrize("laid_out", [keys_in_a_folder, keys_behind_a_link])
@pytest.mark.parametrize("renew", RENEWALS)
async def test_a_file_has_changed_however_it_is_renewed(
    tmp_path: Path, laid_out: Callable[[Path], tuple[Path, Path]], renew: Callable[[Path], None]
) -> None:
    file, folder = laid_out(tmp_path)
    async with looking_at(file) as next_change:
        renew(folder)
        await next_change()


@pytest.mark.parametrize("file", ["current/api-keys", "keys/api-keys"], ids=["folder", "file"])
async def test_a_file_has_changed_when_a_link_on_the_way_to_it_is_moved(tmp_path: Path, file: str) -> None:
    for release in ("1", "2"):
        (tmp_path / release).mkdir()
        (tmp_path / release / "api-keys").write_text(release)
    (tmp_path / "current").symlink_to("1")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "api-keys").symlink_to("../current/api-keys")
    async with looking_at(tmp_path / file) as next_change:
        move_link_to(tmp_path / "current", "2")
        await next_change()
        assert (tmp_path / file).read_text() == "2"


async def test_a_file_that_is_gone_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "api-keys"
    async with looking_at(file) as next_change:
        file.write_text("one")
        await next_change()


async def test_a_file_is_told_of_once_it_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "api-keys"
    file.touch()

    async def write_on() -> None:
        if file.stat().st_size < 5:
            with file.open("a") as opened:
                opened.write("x")

    async with aclosing(changes_of((file,), write_on)) as changes:
        await anext(changes)
        assert file.read_text() == "xxxxx"


async def test_what_stays_as_it_is_is_told_of_once(tmp_path: Path) -> None:
    file = tmp_path / "api-keys"
    file.touch()
    looks: list[object] = []

    async def wait() -> None:
        looks.append(None)
        (tmp_path / "log").write_text("x" * len(looks))  # it is no concern of whoever follows the keys
        if len(looks) == 5:
            raise TimeoutError

    async with aclosing(changes_of((file,), wait)) as changes:
        await anext(changes)
        with pytest.raises(TimeoutError):
            await anext(changes)


@asynccontextmanager
async def looking_at(file: Path) -> AsyncGenerator[Callable[[], Any], None]:
    """Look at a file without end, and give what waits for its next change."""
    async with aclosing(changes_of((file,), partial(asyncio.sleep, 0))) as changes, asyncio.timeout(20):
        await anext(changes)
        yield lambda: anext(changes)
