"""What libraries log, as it stands in the server's log."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

from inferwire_server.logs import UnsentTraces

EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
QUEUE = "opentelemetry.sdk._shared_internal"

PROGRAM = f"""
import logging
from inferwire_server import logs

logs.configure("json", "info")
for number in range(3):
    logging.getLogger("{EXPORTER}").warning("Transient error %s encountered", number)
    logging.getLogger("{QUEUE}").warning("Queue full, dropping %s.", "Span")
logging.getLogger("opentelemetry.sdk.trace.sampling").warning("no such sampler")
"""


EVENT = """
import structlog
from inferwire_server import logs

logs.configure("json", "info")
structlog.get_logger().warning("model failed", model="digits", reason="a long text")
"""


class Clock:
    """A clock that goes on when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_traces_that_cannot_be_sent_are_one_line_that_names_the_variable() -> None:
    done = subprocess.run((sys.executable, "-c", PROGRAM), capture_output=True, text=True, check=True)
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == [
        "traces are not sent to where OTEL_EXPORTER_OTLP_ENDPOINT says: Transient error 0 encountered",
        "no such sampler",
    ]


def test_they_are_told_again_after_a_minute() -> None:
    clock = Clock()
    few = UnsentTraces(clock)
    told: list[bool] = []
    for now in (100.0, 159.0, 160.0, 161.0, 220.0):
        clock.now = now
        told.append(few.filter(logging.LogRecord(EXPORTER, logging.WARNING, "", 0, "100% lost", (), None)))
    assert told == [True, False, True, False, True]


def test_a_line_begins_with_when_what_happened() -> None:
    done = subprocess.run((sys.executable, "-c", EVENT), capture_output=True, text=True, check=True)
    assert list(json.loads(done.stderr)) == ["timestamp", "level", "event", "model", "reason"]
