"""Signals that come while a program is still being imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BY_SIGNAL = """
from inferwire_proto.host.ending_signals import end_at_once, hold_back
{call}
import os, signal, sys
os.kill(os.getpid(), signal.SIGTERM)
print("goes on", *(each.name for each in signal.sigpending()))
"""


def run(call: str, ignored: signal.Handlers | None = None) -> tuple[int, str]:
    """Run a program that sends itself a signal; give its exit code and all that it says."""
    before = signal.signal(signal.SIGTERM, ignored) if ignored is not None else None
    try:
        command = (sys.executable, "-c", BY_SIGNAL.format(call=call))
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
    return done.returncode, done.stdout


def test_they_end_it_without_a_word_and_as_a_shell_counts_it() -> None:
    assert run('end_at_once("SIGINT", "SIGTERM")') == (143, "")


def test_those_that_are_ignored_stay_ignored() -> None:
    assert run('end_at_once("SIGTERM")', signal.SIG_IGN) == (0, "goes on\n")


def test_those_that_are_held_back_wait() -> None:
    assert run('hold_back("SIGTERM")') == (0, "goes on SIGTERM\n")


STAND_IN = """
import _signal, os
os.kill(os.getpid(), _signal.SIGINT)
raise SystemExit(f"goes on, and has {len(_signal.sigpending())} to heed later")
"""


@pytest.mark.parametrize(
    ("program", "end"),
    [
        ("inferwire_cli", (130, "")),
        ("inferwire_server", (130, "")),
        ("inferwire_server.workers", (1, "goes on, and has 1 to heed later\n")),
    ],
)
def test_programs_say_what_signals_do_before_they_import_anything(
    program: str, end: tuple[int, str], tmp_path: Path
) -> None:
    (tmp_path / "typing.py").write_text(STAND_IN)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    command = (sys.executable, "-P", "-m", program)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == end
