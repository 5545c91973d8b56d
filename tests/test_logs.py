"""Log lines of libraries, as the server's log has them."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import subprocess
import sys

import pytest
from tests.clock import Clock

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
import sys
import structlog
from inferwire_server import logs

logs.configure(sys.argv[1], "info")
reason = "Exception from src/core.cpp:84:\\nno such file:\\nmodel.xml"
structlog.get_logger().warning("model failed", model="digits", version="1", device="CPU", reason=reason)
"""

ON_A_THREAD = """
import logging
from threading import Thread
import structlog
from inferwire_server import logs

logs.configure("json", "info", {"worker": 2})
for tell in (structlog.get_logger().warning, logging.getLogger("a.library").warning):
    thread = Thread(target=tell, args=("something",))
    thread.start()
    thread.join()
"""


HOSTILE = """
import structlog
from inferwire_server import logs

logs.configure("console", "info")
name = "digits\\x1b[2J\\x9b"
log = structlog.get_logger()
log.warning(name, model=name)
try:
    raise ValueError(name)
except ValueError:
    log.exception("failed")
"""


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
    for passed_s in (0, 59, 1, 1, 59):
        clock.now += passed_s
        told.append(few.filter(logging.LogRecord(EXPORTER, logging.WARNING, "", 0, "100% lost", (), None)))
    assert told == [True, False, True, False, True]


def test_a_line_begins_with_when_what_happened() -> None:
    done = subprocess.run((sys.executable, "-c", EVENT, "json"), capture_output=True, text=True, check=True)
    line = json.loads(done.stderr)
    assert list(line) == ["timestamp", "level", "event", "model", "version", "device", "reason"]
    assert line["reason"].startswith("Exception from")


def test_a_line_for_people_is_short_and_in_the_order_of_what_it_tells() -> None:
    done = subprocess.run((sys.executable, "-c", EVENT, "console"), capture_output=True, text=True, check=True)
    assert re.sub(" +", " ", re.sub(r"\d", "0", done.stderr)).rstrip() == (
        "0000-00-00 00:00:00 [warning ] model failed model=digits version=0 device=CPU reason='no such file: model.xml'"
    )


@pytest.mark.parametrize(
    ("variables", "has_colours"),
    [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_who_wants_no_colours_on_a_terminal_gets_none(variables: dict[str, str], has_colours: bool) -> None:
    screen, terminal = pty.openpty()
    environment = {**os.environ, "NO_COLOR": "", "TERM": "xterm", **variables}
    subprocess.run((sys.executable, "-c", EVENT, "auto"), stderr=terminal, env=environment, check=True)
    line = os.read(screen, 4096).decode()
    os.close(terminal)
    os.close(screen)
    assert "model failed" in line
    assert ("\x1b" in line) is has_colours


def test_names_that_callers_chose_cannot_act_on_the_terminal() -> None:
    done = subprocess.run((sys.executable, "-c", HOSTILE), capture_output=True, text=True, check=True)
    assert not {"\x1b", "\x9b"} & set(done.stderr)
    assert done.stderr.count(r"digits\x1b[2J\x9b") >= 3


def test_what_holds_for_the_process_is_in_the_lines_of_all_its_threads() -> None:
    done = subprocess.run((sys.executable, "-c", ON_A_THREAD), capture_output=True, text=True, check=True)
    assert [json.loads(line)["worker"] for line in done.stderr.splitlines()] == [2, 2]
