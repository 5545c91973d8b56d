"""Which worker a name belongs to: whatever name a caller sends, one worker is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferwire_server.crew import ALONE, Crew

CREW = [Crew(index, 3, Path("/crew"), "token") for index in range(3)]


@pytest.mark.parametrize("crew", CREW)
def test_every_worker_knows_whose_an_id_is(crew: Crew) -> None:
    assert [each.owner_of(crew.new_id()) for each in CREW] == [crew.index] * 3


def test_ids_are_all_different_and_none_can_be_guessed() -> None:
    ids = {crew.new_id() for crew in CREW for _ in range(100)}
    assert len(ids) == 300
    assert {len(each) for each in ids} == {18}


@pytest.mark.parametrize(
    "name", ["", "-", "x", "a-", "a-3", "a-99", "a-1 ", "a-01", "a-1-x", "a-٢", "a-²", "a-\uff11", "1" * 5000]
)
@pytest.mark.parametrize("crew", CREW)
def test_what_nobody_has_made_is_looked_for_where_it_is_asked_for(crew: Crew, name: str) -> None:
    assert crew.owner_of(name) == crew.index


@pytest.mark.parametrize(("name", "owner"), [("1", 1), ("-2", 2), ("a--1", 1), ("a-0", 0), ("a-b-2", 2)])
@pytest.mark.parametrize("crew", CREW)
def test_the_last_part_of_a_name_says_whose_it_would_be(crew: Crew, name: str, owner: int) -> None:
    assert crew.owner_of(name) == owner


def test_each_has_an_address_and_the_first_is_the_lead() -> None:
    assert [crew.is_lead for crew in CREW] == [True, False, False]
    assert [crew.others for crew in CREW] == [(1, 2), (0, 2), (0, 1)]
    assert [f"unix:{crew.calls}" for crew in CREW] == [CREW[0].address_of(index) for index in range(3)]
    assert len({crew.calls for crew in CREW}) == 3
    assert len({CREW[0].connections_of(index) for index in range(3)}) == 3


def test_an_address_is_written_as_grpc_reads_one() -> None:
    assert Crew(1, 3, Path("/a b/%20#?/\udcff"), "token").address_of(1) == "unix:/a%20b/%2520%23%3F/%FF/calls-1"


def test_a_server_of_one_process_needs_no_others() -> None:
    assert (ALONE.is_lead, ALONE.others, ALONE.calls) == (True, (), None)
    assert ALONE.owner_of("a-1") == 0
    assert "-" not in ALONE.new_id()
