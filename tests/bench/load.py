"""How one way of running a model is measured: closed loop, every answer checked, CPU time of both sides."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from tests.bench.networks import Array
from tests.bench.processes import cpu_s

MOST_KNOWN_ANSWERS = 1000


@dataclass(frozen=True, slots=True)
class Answered:
    """What a way achieved in its time."""

    count: int
    elapsed_s: float
    p50_s: float
    p99_s: float

    @staticmethod
    def of(latencies_s: Sequence[float], elapsed_s: float) -> Answered:
        """Sum up each answer's latency."""
        p99_s = quantiles(latencies_s, n=100)[98] if len(latencies_s) > 1 else latencies_s[0]
        return Answered(len(latencies_s), elapsed_s, median(latencies_s), p99_s)


@dataclass(frozen=True, slots=True)
class Way:
    """A way of running a model.

    Attributes:
        name: Its name.
        run: Runs inferences for about so many seconds. Raises if an answer is wrong.
        server_pid: The process that answers, if it is another.
    """

    name: str
    run: Callable[[float], Answered]
    server_pid: int | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """One way's figures of one round; CPU time per request, the inference included."""

    per_second: float
    p50_ms: float
    p99_ms: float
    client_cpu_us: float
    server_cpu_us: float


def measure(way: Way, seconds: float) -> Figures:
    """Warm a way up and measure it."""
    way.run(seconds / 5)
    server_before, client_before = cpu_s(way.server_pid), _own_cpu_s()
    answered = way.run(seconds)
    return Figures(
        per_second=answered.count / answered.elapsed_s,
        p50_ms=answered.p50_s * 1e3,
        p99_ms=answered.p99_s * 1e3,
        client_cpu_us=(_own_cpu_s() - client_before) / answered.count * 1e6,
        server_cpu_us=(cpu_s(way.server_pid) - server_before) / answered.count * 1e6,
    )


def _own_cpu_s() -> float:
    """Read the CPU seconds of this process and of the load generators it has run."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def check(answer: Array, expected: Array, way: str) -> None:
    """Refuse an answer that is not the one the runtime gives in process.

    Raises:
        AssertionError: It differs by more than bf16 arithmetic in another batch order would.
    """
    if answer.shape != expected.shape or abs(answer - expected).max() > 0.02 * max(1.0, abs(expected).max()):
        raise AssertionError(f"{way} answered {answer!r}, expected {expected!r}")


class KnownAnswers:
    """Checks answers' bytes: those of a kind that was seen before cost next to nothing."""

    def __init__(self, read: Callable[[bytes], Array], expected: Array, way: str) -> None:
        self._read = read
        self._expected = expected
        self._way = way
        self._known: set[bytes] = set()

    def check(self, answer: bytes) -> None:
        """Refuse a wrong answer.

        Raises:
            AssertionError: It is wrong.
        """
        if answer in self._known:
            return
        check(self._read(answer), self._expected, self._way)
        if len(self._known) < MOST_KNOWN_ANSWERS:
            self._known.add(answer)
