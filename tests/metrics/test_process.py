"""The numbers that the system has of the process."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

from inferwire_server.metrics.process import ProcessMetrics

FILES = ("process_open_fds", "process_max_fds")


def values(metrics: ProcessMetrics) -> dict[str, float]:
    return {metric.name: metric.samples[0].value for metric in metrics.collect()}


@contextmanager
def no_more_files() -> Generator[int]:
    """Open as many files as the process may; give how many these are."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    limit = len(list(Path("/proc/self/fd").iterdir())) + 20
    copies: list[int] = []
    setrlimit(RLIMIT_NOFILE, (limit, hard))
    try:
        with suppress(OSError):
            while True:
                copies.append(os.dup(1))
        yield limit
    finally:
        for copy in copies:
            os.close(copy)
        setrlimit(RLIMIT_NOFILE, (soft, hard))


def test_the_open_files_are_told_also_while_no_more_can_be_opened() -> None:
    metrics = ProcessMetrics()
    before = values(metrics)
    assert before["process_open_fds"] < before["process_max_fds"] == getrlimit(RLIMIT_NOFILE)[0]
    with no_more_files() as limit:
        assert [values(metrics).get(name) for name in FILES] == [limit, limit]


def test_they_are_not_told_where_the_system_does_not_say() -> None:
    metrics = ProcessMetrics(proc="/nowhere")
    assert values(metrics) == {}
