"""The demo as a person runs it: it sees what is in the photos, and leaves nothing running however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection

import pytest

from inferwire_cli.demo.show import read_labels, read_photos
from inferwire_cli.terminal import CommandError

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
WAYS = ["infer", "start_async + wait", "AsyncInferQueue", "REST"]
SEEN = re.compile(r"^(\w.*)\n  chelsea\.png +Egyptian Mau 0\.3.*\n  coffee\.png +espresso 0\.9", re.MULTILINE)
ROW = re.compile(r"^(\w.*?) {2,}(\d+) +(\d+) +(\d+\.\d\d) +(\d+\.\d\d) +(\d+\.\d\d)$", re.MULTILINE)
READY = re.compile(r"ready after .* at 127\.0\.0\.1:(\d+)")


def command(models: Path = DEPLOY / "models", photos: Path = DEPLOY / "images") -> list[str]:
    """Name the demo's command line."""
    return [sys.executable, "-m", "inferwire_cli", "demo", "--models", str(models), "--photos", str(photos)]


def is_closed(port: int) -> bool:
    """Whether nobody listens on a port of this machine."""
    try:
        create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    return False


ANOTHER_SERVERS = {
    "INFERWIRE_API_KEY": "no key at all",
    "INFERWIRE_API_KEY_FILE": "/nowhere/keys",
    "INFERWIRE_ROOT_CERTIFICATES": "/nowhere/roots.pem",
    "INFERWIRE_TLS_CERTIFICATE": "/nowhere/certificate.pem",
    "INFERWIRE_TLS_KEY": "/nowhere/key.pem",
}
"""What the environment says of who may call which server, none of which is the demo's."""


@pytest.fixture(scope="module")
def finished() -> subprocess.CompletedProcess[str]:
    environment = os.environ | ANOTHER_SERVERS
    return subprocess.run(command(), env=environment, capture_output=True, text=True, check=False)


def test_it_succeeds(finished: subprocess.CompletedProcess[str]) -> None:
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stderr == ""


def test_every_way_sees_an_espresso_and_a_cat(finished: subprocess.CompletedProcess[str]) -> None:
    seen = SEEN.findall(finished.stdout)
    assert seen == WAYS


def test_every_way_says_where_the_time_went(finished: subprocess.CompletedProcess[str]) -> None:
    rows = ROW.findall(finished.stdout)
    assert [row[0] for row in rows] == WAYS
    assert [(requests, at_once) for _, requests, at_once, *_ in rows] == [
        ("16", "1"),
        ("16", "16"),
        ("64", "4"),
        ("16", "1"),
    ]
    assert all(float(inference_ms) > 0 for *_, inference_ms, _ in rows)


def test_what_it_prints_fits_a_terminal(finished: subprocess.CompletedProcess[str]) -> None:
    _names_the_folder, *lines = finished.stdout.splitlines()
    assert max(map(len, lines)) <= 80


def test_it_leaves_nothing_running(finished: subprocess.CompletedProcess[str]) -> None:
    (port,) = READY.findall(finished.stdout)
    assert is_closed(int(port))


@contextmanager
def demo_with_its_server_ready() -> Generator[tuple[subprocess.Popen[str], int]]:
    """Start the demo and give it, with its server's port, as soon as it has one."""
    with subprocess.Popen(command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        assert demo.stdout is not None
        ready = READY.search(demo.stdout.readline())
        assert ready is not None
        yield demo, int(ready[1])


@pytest.mark.parametrize("interrupt", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_it_still_ends_its_server(interrupt: signal.Signals) -> None:
    with demo_with_its_server_ready() as (demo, port):
        demo.send_signal(interrupt)
        rest, _ = demo.communicate()
    assert demo.returncode == 130, rest
    assert rest.endswith("interrupted; the server has ended\n")
    assert is_closed(port)


def test_a_model_repository_without_the_classes_is_named(tmp_path: Path) -> None:
    done = subprocess.run(command(models=tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert str(tmp_path / "efficientnet_lite0" / "labels.txt") in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("little_memory")
def test_class_names_that_are_none_are_named(tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_bytes(b"caf\xe9")
    with pytest.raises(CommandError, match=f"no class names at {labels}: line 1, column 4: this is not"):
        read_labels(labels)
    labels.write_text("cat\ndog\n")
    with pytest.raises(CommandError, match=f"^2 class names at {labels}, expected 1000, a line each$"):
        read_labels(labels)
    with pytest.raises(CommandError, match="no class names at /dev/zero: it is a device with more than 64 MiB"):
        read_labels(Path("/dev/zero"))


def test_a_folder_without_photos_is_named(tmp_path: Path) -> None:
    done = subprocess.run(command(photos=tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"inferwire: no PNG photos in {tmp_path}; expected at least one\n"


@pytest.mark.usefixtures("little_memory")
def test_a_pipe_or_a_device_is_no_photo(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    (tmp_path / "b.png").symlink_to("/dev/zero")
    with pytest.raises(CommandError, match="no PNG photos in"):
        read_photos(tmp_path)


def test_a_photo_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("no photo")
    done = subprocess.run(command(photos=tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"inferwire: cannot identify image file '{tmp_path / 'a.png'}'\n"


def test_a_reader_that_has_had_enough_ends_it() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(command(), stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
