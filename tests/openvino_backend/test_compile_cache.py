from __future__ import annotations

import fcntl
import os
import resource
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from errno import EIO
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.conftest import without_rights
from tests.waiting import wait_until

from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.openvino_backend.backend import OpenVinoBackend
from inferwire_server.openvino_backend.compile_cache import LOCK, alone_in, kept_in

MODEL = Path(__file__).resolve().parents[2] / "deploy/models/digits_mlp/1/digits_mlp.xml"


def is_held(folder: Path) -> bool:
    with (folder / LOCK).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def is_waited_for(folder: Path) -> bool:
    """Whether the system lists somebody who waits for the folder's lock: in a line of its own, with an arrow."""
    inode = (folder / LOCK).stat().st_ino
    lines = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and f":{inode} " in line for line in lines)


def test_the_folder_is_one_compilers_alone_until_it_has_done(tmp_path: Path) -> None:
    cache = tmp_path / "not" / "there yet"
    with alone_in(cache):
        assert is_held(cache)
    assert not is_held(cache)
    with pytest.raises(ZeroDivisionError), alone_in(cache):
        raise ZeroDivisionError
    assert not is_held(cache)


def test_a_process_that_waits_for_itself_says_nothing(tmp_path: Path) -> None:
    def compile_something() -> None:
        with alone_in(tmp_path):
            pass

    with capture_logs() as logs, ThreadPoolExecutor(1) as threads:
        with alone_in(tmp_path):
            compiling = threads.submit(compile_something)
            wait_until(lambda: is_waited_for(tmp_path))
        compiling.result(60)
    assert logs == []


def test_a_process_that_waits_for_another_says_so(tmp_path: Path) -> None:
    def compile_something() -> None:
        with alone_in(tmp_path):
            pass

    with capture_logs() as logs, ThreadPoolExecutor(1) as threads:
        with (tmp_path / LOCK).open("ab") as held_by_another:
            fcntl.flock(held_by_another, fcntl.LOCK_EX)
            compiling = threads.submit(compile_something)
            wait_until(lambda: is_waited_for(tmp_path))
        compiling.result(60)
    assert [entry["event"] for entry in logs] == ["waiting for another that compiles into the cache"]


def test_a_model_is_compiled_without_a_folder_that_is_gone_and_cannot_be_made_anew(readable_by_all: Path) -> None:
    cached = ModelOptions("m", "CPU", {"CACHE_DIR": str(readable_by_all / "cache")})
    backend = OpenVinoBackend()
    with capture_logs() as logs, without_rights():
        assert backend.compile(Source(MODEL), cached).spec.name == "m"
    assert [line["event"] for line in logs] == ["compiling without the cache"]
    assert not list(readable_by_all.iterdir())


@pytest.mark.parametrize("name", ["file", "file/cache", "dangling"])
def test_what_is_no_folder_and_cannot_be_made_one_is_of_no_use(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "gone" / "folder")
    with alone_in(tmp_path / name) as is_of_use:
        assert not is_of_use


def test_a_model_is_compiled_into_a_cache_when_nobody_else_does(tmp_path: Path) -> None:
    options = ModelOptions("m", "CPU", {"CACHE_DIR": str(tmp_path)})
    with ThreadPoolExecutor(1) as threads:
        with alone_in(tmp_path):
            compiling = threads.submit(OpenVinoBackend().compile, Source(MODEL), options)
            wait_until(lambda: compiling.done() or is_waited_for(tmp_path))
            assert not compiling.done()
            assert not list(tmp_path.glob("*.blob"))
        assert compiling.result(60).spec.name == "m"
    assert list(tmp_path.glob("*.blob"))
    assert not is_held(tmp_path)


def test_a_model_from_the_cache_is_exported_as_one_that_can_be_loaded(tmp_path: Path) -> None:
    options = ModelOptions("m", "CPU", {"CACHE_DIR": str(tmp_path / "cache")})
    OpenVinoBackend().compile(Source(MODEL), options)
    backend = OpenVinoBackend()
    blob = tmp_path / "m.blob"
    blob.write_bytes(backend.compile(Source(MODEL), options).export())
    assert backend.compile(Source(blob, is_compiled=True), ModelOptions("m", "CPU")).spec.name == "m"


NOT_KEPT = "not kept in the cache"


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (0o755, ["compiling without the cache's lock", NOT_KEPT]),
        (0o711, ["compiling without the cache's lock", NOT_KEPT]),
        (0o744, ["compiling without the cache"]),
        (0o700, ["compiling without the cache"]),
    ],
)
def test_a_model_is_compiled_whatever_the_server_may_do_in_its_cache(
    readable_by_all: Path, mode: int, said: list[str]
) -> None:
    (readable_by_all / "cache").mkdir(mode)
    cached = ModelOptions("m", "CPU", {"CACHE_DIR": str(readable_by_all / "cache")})
    backend = OpenVinoBackend()
    with capture_logs() as logs, without_rights():
        assert backend.compile(Source(MODEL), cached).spec.name == "m"
    assert [(line["event"], line["log_level"]) for line in logs] == [(event, "warning") for event in said]
    assert not list((readable_by_all / "cache").iterdir())


@contextmanager
def without_room() -> Generator[None]:
    """Let no file that is written have more than a few bytes, as on a full volume."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("device", ["CPU", "AUTO"])
def test_a_model_that_a_full_cache_does_not_keep_is_named(tmp_path: Path, device: str) -> None:
    cached = ModelOptions("m", device, {"CACHE_DIR": str(tmp_path)})
    backend = OpenVinoBackend()
    with capture_logs() as logs:
        with without_room():
            backend.compile(Source(MODEL), cached)
        assert [(line["event"], line["model"], line["folder"]) for line in logs] == [(NOT_KEPT, "m", str(tmp_path))]
        for _ in range(2):
            backend.compile(Source(MODEL), cached)
        (blob,) = tmp_path.glob("*.blob")
        blob.write_bytes(b"")  # it is written anew
        backend.compile(Source(MODEL), cached)
    assert len(logs) == 1


def test_a_model_that_is_being_compiled_for_another_device_may_be_kept_yet(tmp_path: Path) -> None:
    class Compiling:
        """What AUTO gives that serves on a device until it has compiled for another."""

        def get_property(self, name: str) -> object:
            return {"EXECUTION_DEVICES": ["(CPU)"], "LOADED_FROM_CACHE": False}[name]

    with capture_logs() as logs:
        kept_in(tmp_path, "m", Compiling)
    assert logs == []


def test_a_model_is_compiled_though_its_cache_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def glob(_path: Path, _pattern: str) -> Generator[Path]:
        raise OSError(EIO, os.strerror(EIO))
        yield

    cached = ModelOptions("m", "CPU", {"CACHE_DIR": str(tmp_path)})
    backend = OpenVinoBackend()
    monkeypatch.setattr(Path, "glob", glob)
    assert backend.compile(Source(MODEL), cached).spec.name == "m"
