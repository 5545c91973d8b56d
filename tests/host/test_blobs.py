"""Uploaded files: kept by hash for as long as somebody holds them."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import stat
import tempfile
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from errno import EIO, EROFS
from functools import partial
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.busy_threads import BusyThreads

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.host.blobs import BlobLimits, BlobStore

CONTENT = b"0123456789"
DIGEST = sha256(CONTENT).digest()


@pytest.fixture
def blobs() -> Generator[BlobStore, None, None]:
    store = BlobStore(BlobLimits(10, 3 * 4106))
    yield store
    store.close()


@pytest.fixture
def roomy() -> Generator[BlobStore, None, None]:
    """Has room for links, too."""
    store = BlobStore(BlobLimits(10, 1 << 20))
    yield store
    store.close()


@pytest.fixture
async def full() -> AsyncGenerator[BlobStore, None]:
    """Holds as much as it may."""
    store = BlobStore(BlobLimits(10, 4106))
    await put(store)
    yield store
    store.close()


def folder_of(blobs: BlobStore) -> Path:
    return Path(repr(blobs).rpartition(" ")[2].rstrip(">"))


def files_of(blobs: BlobStore) -> list[str]:
    return sorted(path.name for path in folder_of(blobs).rglob("*"))


@contextmanager
def no_file_beyond(byte_size: int) -> Generator[None, None, None]:
    """Have the system refuse what makes a file longer, as where the disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (byte_size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def no_more_files() -> Generator[None, None, None]:
    """Have the system open no more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def chunks(*parts: bytes) -> AsyncGenerator[bytes, None]:
    for part in parts:
        yield part


async def put(blobs: BlobStore, content: bytes = CONTENT) -> bytes:
    digest = sha256(content).digest()
    await blobs.put(digest, len(content), chunks(content))
    return digest


async def cleared(blobs: BlobStore) -> None:
    """Wait until what is to be removed is gone."""
    while blobs._begun:
        await asyncio.wait(blobs._begun)


async def linked(blobs: BlobStore, files: dict[str, bytes]) -> dict[str, bytes]:
    """Link blobs, and give what the files have."""
    async with blobs.linked(files) as folder:
        found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        return {path: file.read_bytes() for path, file in found.items()}


async def given_up(call: Coroutine[Any, Any, object]) -> None:
    """Let a call come as far as it does at once, and cancel it."""
    task = asyncio.ensure_future(call)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def refusal(blobs: BlobStore, digest: bytes, byte_size: int, *parts: bytes) -> ServingError:
    with pytest.raises(ServingError) as caught:
        await blobs.put(digest, byte_size, chunks(*parts))
    await cleared(blobs)
    assert files_of(blobs) == []
    return caught.value


async def test_a_blob_is_its_chunks_in_a_row(blobs: BlobStore) -> None:
    await blobs.put(DIGEST, 10, chunks(b"01234", b"", b"56789"))
    assert files_of(blobs) == [DIGEST.hex()]
    assert (folder_of(blobs) / DIGEST.hex()).read_bytes() == CONTENT
    assert repr(blobs) == f"<BlobStore: 1 blobs in {folder_of(blobs)}>"


async def test_an_empty_blob_is_one(blobs: BlobStore) -> None:
    await blobs.put(sha256(b"").digest(), 0, chunks())
    assert len(files_of(blobs)) == 1


async def test_too_large_a_blob_is_refused_before_a_byte_is_read(blobs: BlobStore) -> None:
    error = await refusal(blobs, DIGEST, 11)
    assert (error.code, error.message) == (Code.TOO_LARGE, "the upload has 11 bytes, at most 10 are allowed")


@pytest.mark.parametrize(
    ("digest", "byte_size", "parts", "message"),
    [
        (b"short", 10, (CONTENT,), "the blob's hash has 5 bytes, expected the 32 of a SHA-256"),
        (DIGEST, 10, (b"01234",), "the upload has 5 bytes, expected the 10 it announced"),
        (DIGEST, 5, (b"0123", b"456", b"789"), "the upload has more than the 5 bytes it announced"),
        (bytes(32), 10, (CONTENT,), f"the upload has hash {DIGEST.hex()}, expected {bytes(32).hex()}"),
    ],
)
async def test_an_upload_is_what_it_announced(
    blobs: BlobStore, digest: bytes, byte_size: int, parts: tuple[bytes, ...], message: str
) -> None:
    error = await refusal(blobs, digest, byte_size, *parts)
    assert (error.code, error.message) == (Code.INVALID_INPUT, message)


async def test_an_upload_that_breaks_off_leaves_nothing(blobs: BlobStore) -> None:
    async def breaking() -> AsyncGenerator[bytes, None]:
        yield b"01234"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await blobs.put(DIGEST, 10, breaking())
    await cleared(blobs)
    assert files_of(blobs) == []


async def test_all_blobs_together_take_so_much_and_no_more(blobs: BlobStore) -> None:
    first, second = await put(blobs, b"a"), await put(blobs, b"b")
    await put(blobs)
    with pytest.raises(ServingError) as caught:
        await put(blobs, b"c" * 10)
    assert caught.value.code is Code.TOO_LARGE
    assert caught.value.message == (
        "the upload of 10 bytes is too much for this server, where uploads take 12300 of at most 12318 bytes; "
        "release some first, or start it with a larger --max-uploads-mb"
    )
    blobs.release(first)
    for _ in range(3):
        await put(blobs, b"b")
        blobs.release(second)
    await put(blobs, b"c" * 10)
    assert len(files_of(blobs)) == 3


async def test_uploads_count_while_they_come_and_not_once_they_have_failed(blobs: BlobStore) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def breaking() -> AsyncGenerator[bytes, None]:
        begun.set()
        await goes_on.wait()
        yield b"else"

    coming = [asyncio.ensure_future(blobs.put(DIGEST, 10, breaking())) for _ in range(3)]
    await begun.wait()
    with pytest.raises(ServingError, match="uploads take 12318 of at most 12318 bytes"):
        await put(blobs, b"")
    goes_on.set()
    assert len(await asyncio.gather(*coming, return_exceptions=True)) == 3
    for content in (b"a", b"b", b"c"):
        await put(blobs, content)


async def test_a_disk_that_takes_no_more_is_told_as_one_to_callers_and_once_in_the_log(blobs: BlobStore) -> None:
    with capture_logs() as logged, no_file_beyond(5):
        errors = [await refusal(blobs, DIGEST, 10, CONTENT) for _ in range(3)]
    told = {(error.code, error.message) for error in errors}
    assert told == {(Code.TOO_LARGE, "the upload cannot be stored: File too large")}
    folder = str(folder_of(blobs))
    assert logged == [{"log_level": "error", "event": "uploads fail", "folder": folder, "reason": "File too large"}]
    for _ in range(3):
        await put(blobs)


async def test_an_upload_that_is_not_what_was_announced_is_not_the_disks_fault(blobs: BlobStore) -> None:
    with capture_logs() as logged:
        await refusal(blobs, bytes(32), 10, CONTENT)
    assert logged == []


@pytest.mark.parametrize("is_own_gone", [True, False])
async def test_a_folder_that_was_removed_is_made_anew_by_the_next_upload(roomy: BlobStore, is_own_gone: bool) -> None:
    model = await put(roomy)
    gone = folder_of(roomy)
    rmtree(gone.parent if is_own_gone else gone)
    assert not roomy.has(model)
    with capture_logs() as logged:
        await put(roomy)
    assert (folder_of(roomy) / DIGEST.hex()).read_bytes() == CONTENT
    assert stat.S_IMODE(folder_of(roomy).parent.stat().st_mode) == 0o700
    assert roomy.has(model)
    assert not gone.parent.exists()
    assert [line["event"] for line in logged] == ["the folder for uploads was removed, and is made anew"]
    assert await linked(roomy, {"model.onnx": model}) == {"model.onnx": CONTENT}
    roomy.release(DIGEST)
    roomy.release(DIGEST)
    await cleared(roomy)
    assert (files_of(roomy), roomy.taken.byte_size) == ([], 0)


async def test_nothing_is_written_into_a_folder_that_another_has_put_in_the_place(roomy: BlobStore) -> None:
    place = folder_of(roomy)
    rmtree(place.parent)
    place.mkdir(parents=True)
    await put(roomy)
    assert folder_of(roomy) != place


async def test_where_no_folder_can_be_made_anew_uploads_fail_until_one_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    store = BlobStore(BlobLimits(10, 1 << 20))
    rmtree(tmp_path / "temporary")
    message = "^the upload cannot be stored: No such file or directory$"
    with capture_logs() as logged:
        for _ in range(2):
            with pytest.raises(ServingError, match=message):
                await put(store)
    assert [line["event"] for line in logged] == ["uploads fail"]
    (tmp_path / "temporary").mkdir()
    assert store.has(await put(store))
    store.close()
    assert list((tmp_path / "temporary").iterdir()) == []


async def test_where_no_more_files_can_be_opened_it_is_not_the_disk_that_takes_no_more(blobs: BlobStore) -> None:
    await asyncio.to_thread(int)  # the thread that writes is there
    with no_more_files(), pytest.raises(OSError, match="Too many open files"):
        await blobs.put(DIGEST, 10, chunks(CONTENT))
    await cleared(blobs)
    assert (files_of(blobs), blobs.taken.byte_size) == ([], 0)


async def test_links_are_removed_though_no_more_files_can_be_opened(roomy: BlobStore) -> None:
    model = await put(roomy)
    with ExitStack() as limit:
        async with roomy.linked({"model/saved_model.pb": model, "model/variables/variables.index": model, "a": model}):
            limit.enter_context(no_more_files())
        await cleared(roomy)
    assert files_of(roomy) == [model.hex()]


@pytest.mark.parametrize("path", ["model.onnx", "model/saved_model.pb"])
async def test_a_model_whose_files_were_removed_is_to_be_uploaded_again(roomy: BlobStore, path: str) -> None:
    model = await put(roomy)
    (folder_of(roomy) / model.hex()).unlink()
    reason = "uploaded files were removed from the server's disk"
    with capture_logs() as logged, pytest.raises(ServingError, match=f"^{reason}; upload the model again") as caught:
        await linked(roomy, {path: model})
    assert caught.value.code == Code.MODEL_FAILED
    assert [(line["event"], line["reason"]) for line in logged] == [("uploads fail", reason)]
    await cleared(roomy)
    assert files_of(roomy) == []


async def test_files_that_the_disk_cannot_link_leave_nothing(roomy: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def hardlink_to(_path: Path, _target: Path) -> None:
        raise OSError(EROFS, os.strerror(EROFS))

    model = await put(roomy)
    monkeypatch.setattr(Path, "hardlink_to", hardlink_to)
    with pytest.raises(ServingError, match=r"^the model's files cannot be stored: Read-only file system$"):
        await linked(roomy, {"model.onnx": model})
    await cleared(roomy)
    assert files_of(roomy) == [model.hex()]


async def test_a_blob_goes_with_its_last_holder(blobs: BlobStore) -> None:
    await put(blobs)
    await put(blobs)
    await cleared(blobs)
    blobs.release(DIGEST)
    assert files_of(blobs) == [DIGEST.hex()]
    blobs.release(DIGEST)
    await cleared(blobs)
    assert files_of(blobs) == []


async def test_a_blob_is_let_go_of_though_its_file_stays(full: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(_path: Path, _target: Path) -> None:
        raise OSError(EROFS, os.strerror(EROFS))

    monkeypatch.setattr(Path, "rename", rename)
    full.release(DIGEST)
    await cleared(full)
    assert await put(full) == DIGEST


async def test_what_cannot_be_removed_is_no_error(full: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlink(_path: Path) -> None:
        raise OSError(EIO, os.strerror(EIO))

    monkeypatch.setattr(Path, "unlink", unlink)
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, error: errors.append(error))
    full.release(DIGEST)
    await cleared(full)
    gc.collect()
    assert errors == []


async def test_a_blob_is_removed_on_a_thread_and_counts_until_it_is_gone(full: BlobStore, threads: BusyThreads) -> None:
    threads.occupy()
    full.release(DIGEST)
    assert len(files_of(full)) == 1
    assert DIGEST.hex() not in files_of(full)
    again = asyncio.ensure_future(put(full, b"other"))
    await asyncio.sleep(0)
    threads.leave()
    # It has waited for the room.
    digest = await again
    assert files_of(full) == [digest.hex()]


async def test_a_blob_comes_again_while_it_is_removed(blobs: BlobStore, threads: BusyThreads) -> None:
    await put(blobs)
    threads.occupy()
    blobs.release(DIGEST)
    again = asyncio.ensure_future(put(blobs))
    await asyncio.sleep(0)
    threads.leave()
    await again
    await cleared(blobs)
    assert (folder_of(blobs) / DIGEST.hex()).read_bytes() == CONTENT


async def test_files_that_nobody_reads_any_more_are_removed_on_a_thread(roomy: BlobStore, threads: BusyThreads) -> None:
    async with roomy.linked({"model.onnx": await put(roomy)}) as folder:
        threads.occupy()
    assert folder.exists()
    threads.leave()
    await cleared(roomy)
    assert not folder.exists()


async def test_a_file_that_was_cleaned_away_is_there_again_with_the_next_upload(blobs: BlobStore) -> None:
    await put(blobs)
    (folder_of(blobs) / DIGEST.hex()).unlink()
    await put(blobs)
    assert (folder_of(blobs) / DIGEST.hex()).read_bytes() == CONTENT


async def test_a_file_that_somebody_cleaned_away_is_no_error(blobs: BlobStore) -> None:
    await put(blobs)
    (folder_of(blobs) / DIGEST.hex()).unlink()
    blobs.release(DIGEST)
    assert repr(blobs).startswith("<BlobStore: 0 blobs")


async def test_blobs_are_linked_under_their_paths(roomy: BlobStore) -> None:
    model, tensor = await put(roomy, b"model"), await put(roomy, b"tensor")
    files = {"model.onnx": model, "model.onnx.data": tensor, "a/b/ä c": tensor}
    assert await linked(roomy, files) == {"model.onnx": b"model", "model.onnx.data": b"tensor", "a/b/ä c": b"tensor"}


@pytest.mark.parametrize("paths", [("a", "a/b"), ("a/b", "a"), ("a", "a/b/c")])
async def test_files_that_cannot_lie_beside_each_other_are_refused(roomy: BlobStore, paths: tuple[str, ...]) -> None:
    model = await put(roomy)
    with pytest.raises(ServingError) as caught:
        await linked(roomy, dict.fromkeys(paths, model))
    assert caught.value.code is Code.INVALID_INPUT
    assert caught.value.message == f"'{paths[-1]}' is taken by another of the model's files"
    await cleared(roomy)
    assert files_of(roomy) == [model.hex()]


async def test_a_blob_counts_for_as_long_as_it_is_linked(blobs: BlobStore) -> None:
    await put(blobs)
    async with blobs.linked({"model.onnx": DIGEST}) as folder:
        blobs.release(DIGEST)
        assert (folder / "model.onnx").read_bytes() == CONTENT
        for content in (CONTENT, b"other"):
            with pytest.raises(ServingError, match="uploads take 12298 of at most 12318 bytes"):
                await put(blobs, content)
    for content in (b"a", b"b", b"c"):
        await put(blobs, content)
    assert len(files_of(blobs)) == 3


async def test_links_and_their_folders_count_until_they_are_gone(blobs: BlobStore, threads: BusyThreads) -> None:
    await put(blobs)
    with pytest.raises(ServingError, match="the model's files are too much for this server, where uploads take 4106 "):
        await linked(blobs, {"a/b": DIGEST})
    async with blobs.linked({"a": DIGEST}):
        with pytest.raises(ServingError) as caught:
            await linked(blobs, {"b": DIGEST})
        assert caught.value.code is Code.TOO_LARGE
        assert caught.value.message == (
            "the model's files are too much for this server, where uploads take 12298 of at most 12318 bytes; "
            "release some first, or start it with a larger --max-uploads-mb"
        )
        threads.occupy()
    # It waits for the room.
    waiting = asyncio.ensure_future(linked(blobs, {"b": DIGEST}))
    await asyncio.sleep(0)
    threads.leave()
    assert await waiting == {"b": CONTENT}
    blobs.release(DIGEST)
    await cleared(blobs)
    assert files_of(blobs) == []


async def test_files_are_linked_on_a_thread(roomy: BlobStore, threads: BusyThreads) -> None:
    await put(roomy)
    threads.occupy()
    linking = asyncio.ensure_future(linked(roomy, {"a": DIGEST}))
    for _ in range(3):
        await asyncio.sleep(0)
    assert files_of(roomy) == [DIGEST.hex()]
    threads.leave()
    assert await linking == {"a": CONTENT}


class LastFirst(ThreadPoolExecutor):
    """Runs calls when it is told to, and those that wait in an order that threads may run them in, too."""

    def __init__(self) -> None:
        super().__init__(1)
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        given = Future[Any]()
        self._waiting.append((given, partial(fn, *args, **kwargs)))
        return given

    def run(self) -> None:
        while self._waiting:
            given, call = self._waiting.pop()
            given.set_result(call())


async def test_links_that_nobody_waits_for_any_more_are_removed_once_they_are_there(roomy: BlobStore) -> None:
    await put(roomy)
    threads = LastFirst()
    asyncio.get_running_loop().set_default_executor(threads)
    await given_up(linked(roomy, {"a": DIGEST}))
    roomy.release(DIGEST)
    clearing = asyncio.ensure_future(cleared(roomy))
    while not clearing.done():
        threads.run()
        await asyncio.sleep(0)
    assert files_of(roomy) == []


async def test_links_that_cannot_be_made_for_who_has_gone_are_no_error_of_the_loop(
    roomy: BlobStore, threads: BusyThreads
) -> None:
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    model = await put(roomy)
    (folder_of(roomy) / model.hex()).unlink()
    threads.occupy()
    await given_up(linked(roomy, {"a": model}))
    threads.leave()
    await cleared(roomy)
    gc.collect()
    assert errors == []


async def test_who_goes_while_there_is_no_room_for_links_holds_nothing(blobs: BlobStore, threads: BusyThreads) -> None:
    await put(blobs)
    async with blobs.linked({"a": DIGEST}):
        threads.occupy()
    await given_up(linked(blobs, {"b": DIGEST}))
    blobs.release(DIGEST)
    threads.leave()
    await cleared(blobs)
    assert files_of(blobs) == []


async def test_closing_removes_the_folder() -> None:
    store = BlobStore(BlobLimits(10, 3 * 4106))
    folder = folder_of(store)
    await put(store)
    assert folder.is_dir()
    store.close()
    assert not folder.exists()
