"""How one way of running a model is measured: closed loop, every answer checked, CPU time of both sides."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from tests.bench.networks import Array

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Answered:
    """What a way did in its time: each answer's latency in seconds."""

    latencies_s: list[float]
    elapsed_s: float


Way = Callable[[float], Answered]
"""Runs inferences for so many seconds. Raises where an answer is wrong."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One way's figures of one round."""

    per_second: float
    p50_ms: float
    p99_ms: float
    client_cpu_us: float
    server_cpu_us: float

    @property
    def cpu_us(self) -> float:
        """CPU time per request on both sides, inference included."""
        return self.client_cpu_us + self.server_cpu_us


def measure(way: Way, seconds: float, server_pid: int | None) -> Figures:
    """Warm a way up and measure it."""
    way(seconds / 5)
    server_before = cpu_s(server_pid)
    own_before = time.process_time()
    answered = way(seconds)
    count = len(answered.latencies_s)
    ordered = sorted(answered.latencies_s)
    return Figures(
        per_second=count / answered.elapsed_s,
        p50_ms=median(ordered) * 1e3,
        p99_ms=quantiles(ordered, n=100)[98] * 1e3,
        client_cpu_us=(time.process_time() - own_before) / count * 1e6,
        server_cpu_us=(cpu_s(server_pid) - server_before) / count * 1e6,
    )


def middle(rounds: list[Figures]) -> Figures:
    """Take the median of each figure over the rounds."""
    return Figures(
        *(
            median(getattr(figures, name) for figures in rounds)
            for name in ("per_second", "p50_ms", "p99_ms", "client_cpu_us", "server_cpu_us")
        )
    )


def cpu_s(pid: int | None) -> float:
    """Read the CPU seconds a process has used; none where there is no process."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def check(answer: Array, expected: Array, way: str) -> None:
    """Refuse an answer that is not the one the runtime gives in process.

    Raises:
        AssertionError: It differs by more than bf16 arithmetic in another batch order would.
    """
    if answer.shape != expected.shape or abs(answer - expected).max() > 0.02:
        raise AssertionError(f"{way} answered {answer!r}, expected {expected!r}")
