"""The log of a server: of a bug, where it happened and nothing of what callers sent; nobody waits for its reader."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from shutil import copytree

import pytest
from tests.system.servers import log_line, started, wait_for

from inferwire_cli.health import is_ready
from inferwire_cli.server_process import HOST, ServerProcess, end, free_ports, wait_until_ready

MODELS = Path(__file__).resolve().parents[2] / "deploy/models"

PROGRAM = """
import sys, structlog
from inferwire_server.logs import configure

def infer(tensor):
    raise RuntimeError("no")

configure(sys.argv[1], "info")
try:
    infer("sec" + "ret")
except RuntimeError as error:
    structlog.stdlib.get_logger().error("a bug", exc_info=error)
"""


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_traceback_has_no_values(log_format: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, log_format], capture_output=True, text=True, check=True)
    assert "RuntimeError" in done.stderr
    assert "infer" in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_calls_do_not_wait_for_a_terminal_that_shows_nothing_more(workers: str) -> None:
    grpc_port, http_port = free_ports(2)
    shown, terminal = os.openpty()
    flags = ["--allow-uploads", "--log-level", "debug", "--workers", workers]
    ports = ["--grpc-port", str(grpc_port), "--http-port", str(http_port)]
    command = [sys.executable, "-m", "inferwire_cli", "serve", *flags, *ports]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, process_group=0)
    server = ServerProcess(process, grpc_port, http_port)
    try:
        wait_for(server, lambda: is_ready(HOST, http_port))
        for _ in range(8):
            # Each connection may reach another worker.
            with closing(HTTPConnection(HOST, http_port, timeout=60)) as http:
                for length in range(1000, 1064):
                    http.request("GET", f"/v2/models/{'x' * length}")
                    assert http.getresponse().read()
        assert end(server) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
        os.close(shown)


def test_models_that_are_idle_before_the_last_is_loaded_count_as_ready(tmp_path: Path) -> None:
    for name in ("digits_mlp", "efficientnet_lite0"):
        copytree(MODELS / name / "1", tmp_path / name / "1")
        (tmp_path / name / "inferwire.toml").write_text("idle_unload_s = 0.001\n")
    with started("--model-repository", str(tmp_path)) as (server, log):
        wait_until_ready(server, log)
        line = log_line(log, "ready")
    assert (line["level"], line["ready"], line["failed"], line["versions"]) == ("info", 2, 0, 2)


def test_models_that_failed_are_counted_when_the_server_is_ready(tmp_path: Path) -> None:
    copytree(MODELS / "digits_mlp/1", tmp_path / "digits_mlp/1")
    (tmp_path / "broken.onnx").write_text("no model")
    with started("--model-repository", str(tmp_path)) as (server, log):
        wait_until_ready(server, log)
        line = log_line(log, "ready")
    assert (line["level"], line["ready"], line["failed"], line["versions"]) == ("warning", 1, 1, 2)
