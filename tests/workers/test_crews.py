"""Which cores a worker computes on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inferwire_server.settings import Settings
from inferwire_server.workers.crews import Workers, share, workers_of

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


def test_one_process_is_a_crew_of_nobody_else() -> None:
    with workers_of(Settings()) as workers:
        assert workers == Workers()
        workers.keep_to_share()


def test_a_crew_has_a_folder_that_nobody_else_may_enter_and_that_goes_with_it() -> None:
    with workers_of(Settings(workers=3)) as workers:
        crew = workers.crew
        assert (crew.index, crew.count, len(crew.token)) == (0, 3, 32)
        assert crew.folder.stat().st_mode & 0o777 == 0o700
        assert workers.cores
    assert not crew.folder.exists()
