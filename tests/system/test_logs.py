"""The log of a bug: where it happened, and nothing of what callers sent. One who leaves is none."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, structlog
from inferwire_server.logs import configure
from inferwire_server.settings import Settings

def infer(tensor):
    raise RuntimeError("no")

configure(Settings(log_format=sys.argv[1]))
try:
    infer("sec" + "ret")
except RuntimeError as error:
    structlog.stdlib.get_logger().error("a bug", exc_info=error)
"""


CALLERS = """
import logging
from grpc._cython.cygrpc import ExecuteBatchError
from inferwire_server.logs import configure
from inferwire_server.settings import Settings

configure(Settings())
calls = logging.getLogger(ExecuteBatchError.__module__)
for error in (ExecuteBatchError("left"), ValueError("bug")):
    try:
        raise error
    except Exception:
        calls.exception("%s raised by servicer method [/s/m]", type(error).__name__)
calls.error("a line without an exception")
"""


def test_a_caller_that_leaves_as_its_answer_is_sent_is_no_error() -> None:
    done = subprocess.run([sys.executable, "-c", CALLERS], capture_output=True, text=True, check=True)
    assert "ExecuteBatchError" not in done.stderr
    assert "ValueError raised by servicer method" in done.stderr
    assert "a line without an exception" in done.stderr


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_traceback_has_no_values(log_format: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, log_format], capture_output=True, text=True, check=True)
    assert "RuntimeError" in done.stderr
    assert "infer" in done.stderr
    assert "secret" not in done.stderr
