"""The log of a bug: where it happened, and nothing of what callers sent."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
