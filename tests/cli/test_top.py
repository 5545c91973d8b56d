"""Watching a server: once for a pipe, and on a terminal until somebody has seen enough."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import pytest
from tests.waiting import LIMIT_S

from inferwire_cli.server_process import HOST, ServerProcess, free_ports

Run = Callable[..., Any]


def test_colours_are_no_terminal(server: ServerProcess) -> None:
    command = [sys.executable, "-m", "inferwire_cli", "top"]
    environment = {**os.environ, "INFERWIRE_HTTP_ADDRESS": server.http_address, "FORCE_COLOR": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert "digits_mlp" in done.stdout


@pytest.mark.parametrize("flags", [("--once",), ()])
def test_where_nobody_looks_it_looks_once(run: Run, flags: tuple[str, ...]) -> None:
    run("infer", "digits_mlp", "-i", str([0.0] * 64))
    done = run("top", *flags)
    assert done.returncode == 0, done.stderr
    heading, _, _, cpu, _, models, *rows = done.stdout.splitlines()
    assert heading.startswith("inferwire ")
    assert cpu.split()[0] == "CPU"
    assert models.split()[:4] == ["model", "version", "state", "device"]
    digits = next(row.split() for row in rows if row.startswith("digits_mlp"))
    assert digits[1:4] == ["1", "ready", "CPU"]
    assert int(digits[6].replace(",", "")) >= 1
    assert "broken version 1: " in done.stdout


def test_who_is_not_there_or_something_else_is_named(run: Run, server: ServerProcess) -> None:
    (port,) = free_ports(1)
    done = run("top", "--once", "--http-address", f"{HOST}:{port}")
    assert (done.returncode, f"no HTTP server answers at {HOST}:{port}" in done.stderr) == (1, True)
    done = run("top", "--once", "--http-address", "nobody..here:80")
    assert (done.returncode, "no HTTP server answers at nobody..here:80" in done.stderr) == (1, True)
    done = run("top", "--once", "--http-address", server.grpc_address)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("top", "--once"), ("bench", "digits_mlp", "--path", "rest", "--number", "1")])
def test_http_is_not_guessed_from_an_unusual_grpc_port(
    run: Run, server: ServerProcess, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.delenv("INFERWIRE_HTTP_ADDRESS")
    done = run(*words, "--address", server.grpc_address)
    assert done.returncode == 2
    assert f"gRPC is at {server.grpc_address}" in done.stderr
    assert f"give --http-address {HOST}:PORT" in done.stderr
    assert run(*words, "--address", server.grpc_address, "--http-address", server.http_address).returncode == 0


def test_a_server_that_is_away_is_told_of_before_a_flag_that_is_missing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INFERWIRE_HTTP_ADDRESS")
    (port,) = free_ports(1)
    done = run("top", "--once", "--address", f"{HOST}:{port}")
    assert done.returncode == 1
    assert f"no inferwire server answers at {HOST}:{port}" in done.stderr


@pytest.mark.parametrize("interval", ["inf", "nan", "1e10"])
def test_nobody_can_wait_for_ever_for_the_next_look(run: Run, interval: str) -> None:
    done = run("top", "--interval", interval)
    assert done.returncode == 2
    assert "--interval" in done.stderr


class Terminal:
    """A terminal with a command in it."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self._screen = screen
        self._shown = b""

    def wait_for(self, text: str, times: int = 1) -> None:
        """Read until a text was shown so many times."""
        give_up = monotonic() + LIMIT_S
        while self._shown.count(text.encode()) < times:
            assert monotonic() < give_up, self._shown
            self._read()

    def press(self, key: str) -> None:
        """Type a key."""
        os.write(self._screen, key.encode())

    def end(self) -> int:
        """Wait for the command's end and give its exit code."""
        give_up = monotonic() + LIMIT_S
        while self.process.poll() is None:
            assert monotonic() < give_up, self._shown
            self._read()
        return self.process.returncode

    def has_echo(self) -> bool:
        """Whether what is typed is shown, as a shell leaves it."""
        return bool(termios.tcgetattr(self._screen)[3] & termios.ECHO)

    def _read(self) -> None:
        ready, _, _ = select.select([self._screen], [], [], 0.1)
        if ready:
            self._shown += os.read(self._screen, 65536)


IN_A_SHELL = """
import fcntl, os, sys, termios

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp("sh", ["sh", "-mc", '"$0" "$@"; echo this is the shell; fg', *sys.argv[1:]])
"""
"""Lets a shell with the terminal run a command, say that it is there once that is suspended, and let it go on."""


@contextmanager
def watching(server: ServerProcess, kind: str = "xterm", *before: str) -> Generator[Terminal]:
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 130, 0, 0))
    command = [*before, sys.executable, "-m", "inferwire_cli", "top", "--interval", "0.1"]
    environment = {**os.environ, "INFERWIRE_HTTP_ADDRESS": server.http_address, "TERM": kind}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        command, env=environment, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    )
    try:
        yield Terminal(process, screen)
    finally:
        process.kill()
        process.wait()
        os.close(screen)
        os.close(terminal)


@pytest.mark.parametrize("key", ["q", "Q"])
def test_it_looks_again_and_again_until_a_key_ends_it(server: ServerProcess, key: str) -> None:
    with watching(server) as terminal:
        terminal.wait_for("digits_mlp", times=3)
        terminal.press("x")
        terminal.press(key)
        assert terminal.end() == 0
        assert terminal.has_echo()


def test_a_terminal_on_which_nothing_can_change_is_shown_one_look(server: ServerProcess) -> None:
    with watching(server, "dumb") as terminal:
        terminal.wait_for("digits_mlp")
        assert terminal.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_as_well(server: ServerProcess, number: signal.Signals) -> None:
    with watching(server) as terminal:
        terminal.wait_for("digits_mlp", times=2)
        terminal.process.send_signal(number)
        assert terminal.end() == 0
        assert terminal.has_echo()


def test_a_key_that_was_pressed_too_early_counts(server: ServerProcess) -> None:
    with watching(server) as terminal:
        terminal.press("q")
        assert terminal.end() == 0


def test_a_shell_has_its_terminal_back_while_it_is_suspended(server: ServerProcess) -> None:
    entered, left = "\x1b[?1049h", "\x1b[?1049l"
    with watching(server, "xterm", sys.executable, "-c", IN_A_SHELL) as terminal:
        terminal.wait_for("digits_mlp", times=2)
        terminal.press("\x1a")
        terminal.wait_for("this is the shell")
        terminal.wait_for(left)
        terminal.wait_for(entered, times=2)
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.has_echo()
