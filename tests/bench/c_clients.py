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


@dataclass(frozen=True, slots=True)
class H2Load:
    """What h2load says of a run."""

    succeeded: int
    data_bytes: int
    elapsed_s: float


def missing(generator: str) -> str | None:
    """Say how to get a generator that is not installed."""
    if shutil.which(generator):
        return None
    return f"{generator} is not installed: apt-get install {PACKAGES[generator]}"


def h2load(address: str, request: Request, answers: KnownAnswers, in_flight: int) -> Callable[[float], Answered]:
    """Unary gRPC calls on one connection."""
    rates = [100.0]

    def run(seconds: float) -> Answered:
        answer = one_grpc_answer(address, request)
        answers.check(answer)
        with TemporaryDirectory() as folder:
            latencies: list[float] = []
            elapsed = 0.0
            while elapsed < 0.8 * seconds:
                count = max(in_flight, round(rates[-1] * (seconds - elapsed)))
                found, each = _h2load(address, request, count, in_flight, Path(folder))
                if (found.succeeded, found.data_bytes) != (count, count * (GRPC_FRAME + len(answer))):
                    raise AssertionError(f"h2load sent {count} calls with answers of {len(answer)} bytes, got {found}")
                latencies += each
                elapsed += found.elapsed_s
                rates.append(count / found.elapsed_s)
        return Answered.of(latencies, elapsed)

    return run


def _h2load(address: str, request: Request, count: int, in_flight: int, folder: Path) -> tuple[H2Load, list[float]]:
    body, log = folder / "body", folder / "log"
    body.write_bytes(b"\0" + len(request.body).to_bytes(4, "big") + request.body)
    log.unlink(missing_ok=True)
    said = _run(
        *("h2load", "-n", str(count), "-c", "1", "-m", str(in_flight), "-d", str(body), f"--log-file={log}"),
        *("-H", "content-type: application/grpc", "-H", "te: trailers", f"http://{address}{request.path}"),
    )
    return read_h2load(said), read_h2load_log(log.read_text())


def read_h2load(said: str) -> H2Load:
    """Read the summary of a run.

    Raises:
        AssertionError: It is none.
    """
    elapsed = re.search(r"^finished in ([\d.]+)(us|ms|s|m),", said, re.MULTILINE)
    succeeded = re.search(r"(\d+) succeeded", said)
    data = re.search(r"\((\d+)\) data$", said, re.MULTILINE)
    if elapsed is None or succeeded is None or data is None:
        raise AssertionError(f"h2load said {said!r}, expected its summary")
    unit = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}[elapsed[2]]
    return H2Load(int(succeeded[1]), int(data[1]), float(elapsed[1]) * unit)


def read_h2load_log(log: str) -> list[float]:
    """Read each answer's latency in seconds from the lines: its start, its status, and microseconds."""
    return [int(line.split()[2]) / 1e6 for line in log.splitlines()]


def wrk(address: str, request: Request, answers: KnownAnswers, in_flight: int) -> Callable[[float], Answered]:
    """HTTP posts, each on a connection that is kept."""

    def run(seconds: float) -> Answered:
        answers.check(one_http_answer(address, request))
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


def read_wrk(said: str) -> Answered:
    """Read what the script has written at the end of a run.

    Raises:
        AssertionError: Not every answer was good.
    """
    found = json.loads(said.splitlines()[-1])
    if found["bad_status"] or found["failed"] or not found["requests"]:
        raise AssertionError(f"wrk was refused, or got no answer in its time: {found}")
    return Answered(found["requests"], found["elapsed_us"] / 1e6, found["p50_us"] / 1e6, found["p99_us"] / 1e6)


def _run(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise AssertionError(f"{command[0]} ended with exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout
