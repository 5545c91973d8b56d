"""Named jobs: found, released, and forgotten some time after their end."""

from __future__ import annotations

from itertools import count

import pytest

from inferwire_proto.errors import Code
from inferwire_server.core.ledger import JobLedger, KeepingTerms
from inferwire_server.errors import ServingError


def a_ledger(keep_s: float = 60.0, most_bytes: int = 100) -> JobLedger[str]:
    ids = count(1)
    return JobLedger(lambda: f"job-{next(ids)}", KeepingTerms(keep_s, most_bytes))


def is_known(ledger: JobLedger[str], job_id: str) -> bool:
    try:
        ledger.get(job_id)
    except ServingError:
        return False
    return True


def test_an_entry_is_found_by_its_name() -> None:
    ledger = a_ledger()
    first, second = ledger.add("a"), ledger.add("b")
    assert (ledger.get(first), ledger.get(second), len(ledger)) == ("a", "b", 2)


def test_an_unknown_name_says_what_may_have_happened() -> None:
    with pytest.raises(ServingError) as caught:
        a_ledger().get("nope")
    assert caught.value.code is Code.JOB_NOT_FOUND
    assert caught.value.message == (
        "job 'nope' is not known: it never was, was released, or ended too long ago: "
        "results are kept for 60 s, and for less where later ones need the room"
    )


def test_a_released_entry_is_forgotten_and_releasing_again_does_nothing() -> None:
    ledger = a_ledger()
    job_id = ledger.add("a")
    ledger.release(job_id)
    ledger.release(job_id)
    assert not is_known(ledger, job_id)


def test_an_ended_entry_is_kept_for_its_time_and_no_longer() -> None:
    ledger = a_ledger(keep_s=60.0)
    job_id = ledger.add("a")
    assert ledger.next_expiry is None
    ledger.ended(job_id, 1, 100.0)
    assert ledger.next_expiry == 160.0
    ledger.expire(159.9)
    assert is_known(ledger, job_id)
    ledger.expire(160.0)
    assert not is_known(ledger, job_id)


def test_one_that_has_not_ended_is_never_forgotten() -> None:
    ledger = a_ledger()
    ended, running = ledger.add("a"), ledger.add("b")
    ledger.ended(ended, 1, 0.0)
    ledger.expire(1e9)
    assert not is_known(ledger, ended)
    assert is_known(ledger, running)


def test_those_that_ended_earlier_go_earlier() -> None:
    ledger = a_ledger(keep_s=10.0)
    first, second = ledger.add("a"), ledger.add("b")
    ledger.ended(second, 1, 0.0)
    ledger.ended(first, 1, 5.0)
    ledger.expire(12.0)
    assert is_known(ledger, first)
    assert not is_known(ledger, second)


def test_one_released_before_its_time_is_no_error_later() -> None:
    ledger = a_ledger(keep_s=1.0)
    job_id = ledger.add("a")
    ledger.ended(job_id, 1, 0.0)
    ledger.release(job_id)
    assert ledger.next_expiry is None
    ledger.expire(1.0)
    assert len(ledger) == 0
    assert ledger.kept == (0, (0, 100))


def test_those_that_ended_first_make_room_for_what_ends() -> None:
    ledger = a_ledger(most_bytes=100)
    running = ledger.add("r")
    first, second, third = (ledger.add(name) for name in "abc")
    ledger.ended(second, 40, 0.0)
    ledger.ended(first, 60, 1.0)
    assert ledger.kept == (2, (100, 100))
    ledger.ended(third, 1, 2.0)
    assert [is_known(ledger, each) for each in (running, first, second, third)] == [True, True, False, True]
    assert ledger.kept == (2, (61, 100))


def test_what_is_released_or_expired_gives_its_room_back() -> None:
    ledger = a_ledger(keep_s=10.0, most_bytes=100)
    first, second, third, last = (ledger.add(name) for name in "abcd")
    ledger.ended(first, 50, 0.0)
    ledger.ended(second, 50, 5.0)
    ledger.release(second)
    ledger.ended(third, 50, 6.0)
    ledger.expire(12.0)
    ledger.ended(last, 50, 12.0)
    assert [is_known(ledger, each) for each in (first, second, third, last)] == [False, False, True, True]
    assert ledger.kept == (2, (100, 100))


def test_the_last_is_kept_however_large_it_is_until_another_ends() -> None:
    ledger = a_ledger(most_bytes=100)
    small, large, next_one = (ledger.add(name) for name in "abc")
    ledger.ended(small, 1, 0.0)
    ledger.ended(large, 1000, 1.0)
    assert [is_known(ledger, each) for each in (small, large)] == [False, True]
    ledger.ended(next_one, 1, 2.0)
    assert [is_known(ledger, each) for each in (large, next_one)] == [False, True]
    assert ledger.kept == (1, (1, 100))


def test_one_released_while_it_ran_takes_no_room() -> None:
    ledger = a_ledger()
    job_id = ledger.add("a")
    ledger.release(job_id)
    ledger.ended(job_id, 1000, 0.0)
    assert ledger.kept == (0, (0, 100))
