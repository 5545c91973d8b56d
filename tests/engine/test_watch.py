"""Following the repository's folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from inferwire_server.core.versions import Latest
from inferwire_server.engine.backend import ModelOptions
from inferwire_server.engine.catalogue import Catalogue
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, echo_spec
from inferwire_server.engine.loader import Loader
from inferwire_server.engine.models import Engine, QueueOptions
from inferwire_server.engine.repository import Repository
from inferwire_server.engine.watch import changes_in, changes_in_any, changes_of, follow
from inferwire_server.metrics import Metrics


@asynccontextmanager
async def following(root: Path, changes: AsyncIterator[object]) -> AsyncGenerator[Catalogue, None]:
    """Follow a repository of the model m."""
    catalogue, backend = Catalogue(), FakeBackend({"m": FakeModel(echo_spec("m"))})
    scan = Repository(root, Latest()).served
    with capture_logs():
        async with (
            Engine(backend, QueueOptions(), Metrics().tally) as engine,
            Loader(engine, catalogue, scan, ModelOptions("")) as loader,
            asyncio.TaskGroup() as tasks,
        ):
            watch = tasks.create_task(follow(changes, loader.sync, "the repository cannot be read"))
            await asyncio.sleep(0)  # the watch is on from its first step
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


async def test_versions_come_change_and_go_with_their_files(tmp_path: Path) -> None:
    root = tmp_path / "models"
    root.mkdir()
    async with following(root, changes_in(root)) as catalogue:
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
    async with following(file, changes_in(file)) as catalogue:
        file.with_suffix(".new").write_text("changed")
        file.with_suffix(".new").replace(file)
        await until(catalogue, lambda: catalogue.versions("m") == ("1",))


async def test_a_repository_that_cannot_be_read_is_looked_at_again(tmp_path: Path) -> None:
    root = tmp_path / "models"
    told: asyncio.Queue[object] = asyncio.Queue()

    async def changes() -> AsyncIterator[object]:
        while True:
            yield await told.get()
            told.task_done()

    async with following(root, changes()) as catalogue:
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
    async with asyncio.timeout(30), aclosing(changes_in_any(lambda: set(folders))) as changes:
        await told_of(changes, (first / "file").touch)
        folders.add(second)
        # Whoever looked when the first change was told may have seen nothing of it.
        (second / "early").touch()
        await anext(changes)
        await told_of(changes, (second / "late").touch)
        folders.remove(first)
        await anext(changes)  # and leave a watch that has just begun


async def told_of(changes: AsyncIterator[object], touch: Callable[[], None]) -> None:
    """Change a file once a watch is on, which is to tell of it."""
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)  # the watch is on from its first step
    touch()
    await waiting


@asynccontextmanager
async def telling(*files: Path) -> AsyncGenerator[Callable[[], Any], None]:
    """Watch files, and give what waits for the next change of one."""
    async with aclosing(changes_of(files)) as changes:
        async with asyncio.timeout(20):
            assert await anext(changes) == "watched"
            yield lambda: anext(changes)


async def test_a_file_that_is_written_or_replaced_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one")
    async with telling(file) as next_change:
        file.write_text("two two")
        await next_change()
        (tmp_path / "new").write_text("three")
        (tmp_path / "new").rename(file)
        await next_change()
        file.unlink()
        await next_change()
        file.write_text("four")
        await next_change()


async def test_a_file_behind_a_link_that_is_moved_has_changed(tmp_path: Path) -> None:
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "keys").write_text(version)
    (tmp_path / "now").symlink_to("1")
    (tmp_path / "keys").symlink_to("now/keys")
    async with telling(tmp_path / "keys") as next_change:
        (tmp_path / "next").symlink_to("2")
        (tmp_path / "next").rename(tmp_path / "now")
        await next_change()
        assert (tmp_path / "keys").read_text() == "2"


async def test_what_else_is_in_the_folder_is_passed_over(tmp_path: Path) -> None:
    file, log = tmp_path / "keys", tmp_path / "log"
    file.write_text("one")
    told: list[object] = []
    async with aclosing(changes_of((file,))) as changes, telling(log) as log_has_changed:

        async def listen() -> None:
            async for change in changes:
                told.append(change)
                if file.read_text() != "one":
                    return

        listening = asyncio.ensure_future(listen())
        for line in range(3):
            log.write_text("x" * line)
            await log_has_changed()
        file.write_text("two two")
        await listening
    assert len(told) == 2
