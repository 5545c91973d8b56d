"""Load from generators written in C, which leave more of the machine to the server: h2load and wrk.

Neither looks into an answer, and h2load does not see a gRPC status. So one answer is checked before, and then
their number: h2load's by the bytes of data, which a failed call has none of, wrk's by the HTTP status.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.load import Answered, KnownAnswers
from tests.bench.python_clients import one_grpc_answer, one_http_answer
from tests.bench.requests import Request

PACKAGES = {"h2load": "nghttp2-client", "wrk": "wrk"}
GRPC_FRAME = 5
"""The bytes gRPC puts before a message."""

SCRIPT = Path(__file__).with_name("wrk_post.lua")

LONGEST_S = 60.0
"""The longest run that is made to get a single answer."""


@dataclass(frozen=True, slots=True)
class H2Load:
    """What h2load reports of a run."""

    succeeded: int
    failed: int
    data_bytes: int
    elapsed_s: float


def missing(generator: str) -> str | None:
    """Say how to get a generator that is not installed."""
    if shutil.which(generator):
        return None
    return f"{generator} is not installed: apt-get install {PACKAGES[generator]}"


def h2load(address: str, request: Request, answers: KnownAnswers, in_flight: int) -> Callable[[float], Answered]:
    """Unary gRPC calls, each on a connection that is kept: processes that share a port share its connections."""

    def run(seconds: float) -> Answered:
        answer = one_grpc_answer(address, request)
        answers.check(answer)
        return until_answered(lambda for_s: once(for_s, len(answer)), seconds)

    def once(seconds: float, answer_bytes: int) -> Answered | None:
        with TemporaryDirectory() as folder:
            body, log = Path(folder) / "body", Path(folder) / "log"
            body.write_bytes(b"\0" + len(request.body).to_bytes(4, "big") + request.body)
            said = _run(
                *("h2load", "-c", str(in_flight), "-m", "1", "-D", f"{round(seconds * 1000)}ms", "-d", str(body)),
                *(f"--log-file={log}", "-H", "content-type: application/grpc", "-H", "te: trailers"),
                f"http://{address}{request.path}",
            )
            latencies = read_h2load_log(log.read_text())
        found = read_h2load(said)
        if not (found.succeeded or found.failed):
            return None
        check_h2load(found, answer_bytes, in_flight)
        return Answered.of(latencies, found.elapsed_s)

    return run


def until_answered(once: Callable[[float], Answered | None], seconds: float) -> Answered:
    """Run for so long, and for twice as long again while there is no answer: a large model may take its time.

    Raises:
        AssertionError: There is none in the longest run either.
    """
    while (answered := once(seconds)) is None:
        if seconds >= LONGEST_S:
            raise AssertionError(f"nothing was answered in {seconds:g} s")
        seconds *= 2
    return answered


def check_h2load(found: H2Load, answer_bytes: int, in_flight: int) -> None:
    """Hold the bytes of data against the number of answers. The time's end may cut some off whose data has come.

    Raises:
        AssertionError: A call has failed, or none has been answered.
    """
    each = GRPC_FRAME + answer_bytes
    is_answered = found.succeeded > 0 and found.failed == 0
    if not (is_answered and 0 <= found.data_bytes - found.succeeded * each <= in_flight * each):
        raise AssertionError(f"h2load expected answers of {answer_bytes} bytes to all calls, got {found}")


def read_h2load(said: str) -> H2Load:
    """Read the summary of a run.

    Raises:
        AssertionError: It is no summary.
    """
    elapsed = re.search(r"^finished in ([\d.]+)(us|ms|s|m),", said, re.MULTILINE)
    requests = re.search(r"(\d+) succeeded, (\d+) failed", said)
    data = re.search(r"\((\d+)\) data$", said, re.MULTILINE)
    if elapsed is None or requests is None or data is None:
        raise AssertionError(f"h2load said {said!r}, expected its summary")
    unit = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}[elapsed[2]]
    return H2Load(int(requests[1]), int(requests[2]), int(data[1]), float(elapsed[1]) * unit)


def read_h2load_log(log: str) -> list[float]:
    """Read each answer's latency in seconds from the lines: its start, its status, and microseconds."""
    return [int(line.split()[2]) / 1e6 for line in log.splitlines()]


def wrk(address: str, request: Request, answers: KnownAnswers, in_flight: int) -> Callable[[float], Answered]:
    """HTTP posts, each on a connection that is kept."""

    def run(seconds: float) -> Answered:
        answers.check(one_http_answer(address, request))
        return until_answered(once, seconds)

    def once(seconds: float) -> Answered | None:
        headers = [text for header in request.headers.items() for text in header]
        with TemporaryDirectory() as folder:
            body = Path(folder) / "body"
            body.write_bytes(request.body)
            said = _run(
                *("wrk", "-t1", f"-c{in_flight}", f"-d{max(1, round(seconds))}s", "--timeout", "30s"),
                *("-s", str(SCRIPT), f"http://{address}{request.path}", "--", str(body), *headers),
            )
        return read_wrk(said)

    return run


def read_wrk(said: str) -> Answered | None:
    """Read what the script has written at the end of a run; None if nothing was answered in its time.

    Raises:
        AssertionError: Not every answer was good.
    """
    found = json.loads(said.splitlines()[-1])
    if not (found["requests"] or found["failed"]):
        return None
    if found["bad_status"] or found["failed"]:
        raise AssertionError(f"wrk was refused, or got no answer in its time: {found}")
    return Answered(found["requests"], found["elapsed_us"] / 1e6, found["p50_us"] / 1e6, found["p99_us"] / 1e6)


def _run(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise AssertionError(f"{command[0]} ended with exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout
