"""Which cores a worker computes on."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_server.settings import Settings
from inferwire_server.workers.processes import Workers, share, workers_of

cores = st.sets(st.integers(0, 255), min_size=1, max_size=64)


@given(cores, st.data())
def test_shares_are_all_cores_once_and_as_even_as_can_be(found: set[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(found)))
    shares = [share(found, index, count) for index in range(count)]
    assert [core for part in shares for core in sorted(part)] == sorted(found)
    sizes = {len(part) for part in shares}
    assert max(sizes) - min(sizes) <= 1


@given(cores, st.data())
def test_where_cores_are_fewer_than_workers_each_may_use_all(found: set[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(len(found) + 1, 100))
    assert {share(found, index, count) for index in range(count)} == {frozenset(found)}


@pytest.mark.parametrize(
    ("cpu_limit", "workers", "threads"),
    [
        (None, 1, None),
        (64.0, 1, None),
        (63.9, 1, 63),
        (4.0, 1, 4),
        (0.5, 1, 1),
        (9.0, 4, 2),
        (2.0, 4, 1),
        (256.0, 4, None),
    ],
)
def test_no_more_threads_compute_than_there_is_cpu_time_for(
    monkeypatch: pytest.MonkeyPatch, cpu_limit: float | None, workers: int, threads: int | None
) -> None:
    def cores(_: int) -> frozenset[int]:
        return frozenset(range(64))

    monkeypatch.setattr(os, "sched_getaffinity", cores)
    assert workers_of(Settings(workers=workers)).threads(cpu_limit) == threads


@pytest.mark.parametrize(
    ("cpu_limit", "workers", "cpus"),
    [
        (None, 1, 64),
        (None, 4, 16),
        (None, 128, 0.5),
        (1.5, 1, 1.5),
        (4.0, 4, 1),
        (256.0, 4, 16),
    ],
)
def test_a_process_has_its_part_of_the_cores_and_of_the_cpu_time(
    monkeypatch: pytest.MonkeyPatch, cpu_limit: float | None, workers: int, cpus: float
) -> None:
    def cores(_: int) -> frozenset[int]:
        return frozenset(range(64))

    monkeypatch.setattr(os, "sched_getaffinity", cores)
    assert workers_of(Settings(workers=workers)).cpus(cpu_limit) == cpus


def test_one_process_is_a_crew_of_nobody_else() -> None:
    workers = workers_of(Settings())
    assert workers == Workers()
    assert workers.crew.calls is None
    workers.keep_to_share()


def test_crews_know_each_other_from_others() -> None:
    one, another = (workers_of(Settings(workers=3)) for _ in range(2))
    assert (one.crew.index, one.crew.count, one.cores) == (0, 3, frozenset(os.sched_getaffinity(0)))
    assert one.crew.token != another.crew.token
