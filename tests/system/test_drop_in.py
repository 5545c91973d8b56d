"""A program written for openvino gives the same where it runs with openvino and where a server runs its models."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from inferwire_cli.server_process import running_server

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests/data/openvino_program.py"
MODEL = ROOT / "deploy/models/digits_mlp/1/digits_mlp.xml"
LIMIT_S = 120


def run(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", *map(str, words)]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )


def test_a_program_prints_the_same_with_openvino_and_with_a_server(tmp_path: Path) -> None:
    # What reports usage to openvino's makers has a process of its own, which may keep the program's output open.
    (tmp_path / "openvino_telemetry.py").write_text("raise ImportError")
    local = run(PROGRAM, MODEL, "--rows", "3", PYTHONPATH=os.pathsep.join((str(tmp_path), *sys.path[1:])))
    assert (local.returncode, local.stderr) == (3, "")
    with running_server(tmp_path, "--allow-uploads") as server:
        remote = run("-m", "inferwire", "--address", server.grpc_address, PROGRAM, MODEL, "--rows", "3")
    assert remote.stdout == local.stdout
    assert (remote.returncode, remote.stderr) == (3, "")


def test_a_program_without_a_server_is_told_so_in_one_sentence() -> None:
    done = run("-m", "inferwire", "--address", "127.0.0.1:1", PROGRAM, MODEL)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("inferwire.errors.ServerUnavailable: ")
    assert "127.0.0.1:1" in last
