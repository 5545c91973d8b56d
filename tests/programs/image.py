"""The image, built and run by docker or podman as its Dockerfile says, for a user of any number.

The engine needs the base image, and PyPI.
"""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic, sleep

import numpy as np
import openvino
from tests.programs.environments import ROOT

import inferwire

MODELS = ROOT / "deploy/models"
TAG = "inferwire-programs"
HEALTH = ("python3", "-P", "-m", "inferwire_cli.health")
UNCOMPILED = """
import os, sys, inferwire_cli.health, inferwire_cli.__main__, inferwire_server.process
inferwire_server.process.openvino_backend()
kept = {name: getattr(module, "__cached__", None) for name, module in sys.modules.items()}
print(*(name for name, file in kept.items() if file and not os.path.exists(file)))
"""
START_LIMIT_S = 60.0


def measure() -> tuple[bool, str] | None:
    """Build the image, run it and stop it, and say what is wrong; None if there is no engine."""
    engine = next(filter(_answers, ("docker", "podman")), None)
    if engine is None:
        return None
    as_docker = ("--format", "docker") if engine == "podman" else ()
    subprocess.run((engine, "build", "--quiet", *as_docker, "--tag", TAG, ROOT), check=True)
    try:
        with _container(engine) as name:
            wrong = _wrong(engine, name)
    finally:
        _said(engine, "rmi", "--force", TAG)
    return not wrong, "\n".join(wrong) or f"{engine}: health, inference, bytecode, cache, what it writes, its end"


def _answers(engine: str) -> bool:
    try:
        return subprocess.run((engine, "info"), capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@contextmanager
def _container(engine: str) -> Generator[str]:
    """Run the image with less than it is given by default."""
    may = ("--read-only", "--tmpfs", "/tmp:size=1g", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    has = ("--user", "12345:0", "--publish", "127.0.0.1::8001")
    mounts = ("--volume", f"{MODELS}:/models:ro", "--volume", "/cache")
    name = _said(engine, "run", "--detach", *may, *has, *mounts, TAG, "--cache-dir", "/cache")
    try:
        yield name
    finally:
        _said(engine, "rm", "--force", "--volumes", name)


def _wrong(engine: str, name: str) -> list[str]:
    wrong: list[str] = []
    end = monotonic() + START_LIMIT_S
    while asked := subprocess.run((engine, "exec", name, *HEALTH), capture_output=True, text=True, check=False).stderr:
        if monotonic() > end:
            return [asked, _said(engine, "logs", name)]
        sleep(0.5)
    pixels = np.random.default_rng(0).uniform(0, 16, (2, 64)).astype(np.float32)
    served = inferwire.Core(_said(engine, "port", name, "8001")).served_model("digits_mlp")
    expected = openvino.compile_model(MODELS / "digits_mlp/1/digits_mlp.xml", "CPU")(pixels)[0]
    if not np.allclose(served(pixels)[0], expected, atol=0.02):
        wrong.append("gives other numbers than openvino")
    if uncompiled := _said(engine, "exec", name, "python3", "-c", UNCOMPILED):
        wrong.append(f"compiles at each start: {uncompiled}")
    if not _said(engine, "exec", name, "ls", "/cache"):
        wrong.append("keeps no compiled models in a new volume")
    if left := _said(engine, "exec", name, "ls", "-A", "/tmp"):
        wrong.append(f"has written {left}")
    _said(engine, "stop", "-t", "40", name)
    if (code := _said(engine, "inspect", "--format", "{{.State.ExitCode}}", name)) != "0":
        wrong.append(f"ended with exit code {code}")
    return wrong


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
