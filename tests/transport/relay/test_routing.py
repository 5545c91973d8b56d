"""Who is asked for an answer, in which order, and whose failure is the call's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest

from inferwire_proto.errors import Code
from inferwire_server.crew import Crew
from inferwire_server.errors import ServingError
from inferwire_server.gil_thread import GilThread
from inferwire_server.transport.relay.audiences import Audience, Everywhere, Reach, Summed
from inferwire_server.transport.relay.other_workers import OtherWorkers
from inferwire_server.transport.relay.routing import Routing, SumLimits
from inferwire_server.transport.relay.sums import Sum

COUNT = 3
STATEFUL = frozenset({"stateful"})
SUMMED = Summed(b"+".join)


@dataclass
class Asked:
    """A call that writes down who is asked, "-alone" as the only one, and fails where it is to."""

    index: int
    subject: str = ""
    failing: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()
    order: list[str] = field(default_factory=list[str])
    has_begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def here(self) -> bytes:
        self.order.append("here")
        self.has_begun.set()
        return self._answer(self.index)

    async def at(self, worker: int, *, alone: bool) -> bytes:
        self.order.append(f"{worker}-alone" if alone else f"{worker}")
        await (asyncio.Event().wait() if worker in self.silent else asyncio.sleep(0))
        self.order.append(f"{worker} answers")
        return self._answer(worker)

    def added(self, add: Sum, answers: Sequence[bytes]) -> bytes:
        return add(answers)

    def _answer(self, worker: int) -> bytes:
        if worker in self.failing:
            raise ValueError(worker)
        return b"%d" % worker


def crew(index: int) -> Crew:
    return Crew(index, COUNT, token="token")


@pytest.fixture
async def other_workers() -> AsyncIterator[OtherWorkers]:
    async with OtherWorkers(crew(0)) as opened:
        opened.have_come()
        yield opened


def routing(index: int, other_workers: OtherWorkers, stateful: frozenset[str] = STATEFUL) -> Routing:
    return Routing(crew(index), other_workers, lambda: stateful, GilThread())


async def test_the_lead_answers_first_then_every_follower_at_once_and_alone(other_workers: OtherWorkers) -> None:
    asked = Asked(0)
    assert await routing(0, other_workers).answer(Everywhere.MODELS, asked) == b"0"
    assert asked.order == ["here", "1-alone", "2-alone", "1 answers", "2 answers"]


async def test_a_sum_is_made_of_all_answers_the_lead_s_first(other_workers: OtherWorkers) -> None:
    asked = Asked(0)
    assert await routing(0, other_workers).answer(SUMMED, asked) == b"0+1+2"
    assert asked.order[:3] == ["here", "1-alone", "2-alone"]


async def test_a_sum_does_not_keep_the_loop(other_workers: OtherWorkers) -> None:
    where: list[threading.Thread] = []

    def add(answers: Sequence[bytes]) -> bytes:
        where.append(threading.current_thread())
        return b""

    await routing(0, other_workers).answer(Summed(add), Asked(0))
    assert where != [threading.current_thread()]


@pytest.mark.parametrize("audience", [Everywhere.MODELS, SUMMED], ids=["everywhere", "summed"])
@pytest.mark.parametrize("index", [1, 2])
async def test_a_follower_leaves_it_to_the_lead(other_workers: OtherWorkers, audience: Audience, index: int) -> None:
    asked = Asked(index)
    assert await routing(index, other_workers).answer(audience, asked) == b"0"
    assert asked.order == ["0", "0 answers"]


@pytest.mark.parametrize("audience", [Everywhere.MODELS, SUMMED], ids=["everywhere", "summed"])
async def test_where_the_lead_fails_nobody_else_is_asked(other_workers: OtherWorkers, audience: Audience) -> None:
    asked = Asked(0, failing=frozenset({0, 1}))
    with pytest.raises(ValueError, match="0"):
        await routing(0, other_workers).answer(audience, asked)
    assert asked.order == ["here"]


@pytest.mark.parametrize("audience", [Everywhere.MODELS, SUMMED], ids=["everywhere", "summed"])
@pytest.mark.parametrize(("failing", "told"), [({1}, "1"), ({2}, "2"), ({1, 2}, "1")])
async def test_where_followers_fail_the_first_failure_is_the_answer_once_all_have_answered(
    other_workers: OtherWorkers, audience: Audience, failing: set[int], told: str
) -> None:
    asked = Asked(0, failing=frozenset(failing))
    with pytest.raises(ValueError, match=told):
        await routing(0, other_workers).answer(audience, asked)
    assert asked.order[-2:] == ["1 answers", "2 answers"]


@pytest.mark.parametrize("index", range(COUNT))
@pytest.mark.parametrize("owner", range(COUNT))
async def test_a_job_is_asked_of_its_worker(other_workers: OtherWorkers, index: int, owner: int) -> None:
    asked = Asked(index, crew(owner).new_id())
    assert await routing(index, other_workers).answer(Reach.OWNER, asked) == b"%d" % owner
    assert asked.order == (["here"] if owner == index else [f"{owner}-alone", f"{owner} answers"])


@pytest.mark.parametrize("index", range(COUNT))
async def test_a_job_of_nobody_is_looked_for_here(other_workers: OtherWorkers, index: int) -> None:
    asked = Asked(index, "a-99")
    assert await routing(index, other_workers).answer(Reach.OWNER, asked) == b"%d" % index
    assert asked.order == ["here"]


@pytest.mark.parametrize(
    ("index", "model", "order"),
    [
        (0, "stateful", ["here"]),
        (0, "other", ["here"]),
        (1, "stateful", ["0", "0 answers"]),
        (1, "other", ["here"]),
    ],
)
async def test_states_are_with_the_lead_and_other_models_everywhere(
    other_workers: OtherWorkers, index: int, model: str, order: list[str]
) -> None:
    asked = Asked(index, model)
    await routing(index, other_workers).answer(Reach.STATES, asked)
    assert asked.order == order


@pytest.mark.parametrize(
    ("audience", "index", "stateful", "stays"),
    [
        (Reach.STATES, 0, STATEFUL, True),
        (Reach.STATES, 1, STATEFUL, False),
        (Reach.STATES, 1, frozenset[str](), True),
        (Reach.OWNER, 1, frozenset[str](), False),
        (Everywhere.MODELS, 0, frozenset[str](), False),
        (SUMMED, 0, frozenset[str](), False),
    ],
)
def test_only_inferences_stay_whatever_they_name(
    audience: Audience, index: int, stateful: frozenset[str], stays: bool
) -> None:
    other_workers = OtherWorkers(crew(index))
    assert routing(index, other_workers, stateful).stays(audience) is stays


async def test_before_all_are_there_sums_are_the_leads_alone_and_changes_are_refused() -> None:
    async with OtherWorkers(crew(0)) as other_workers:
        summed, changing = Asked(0), Asked(0)
        assert await routing(0, other_workers).answer(SUMMED, summed) == b"0"
        with pytest.raises(ServingError, match="the server is starting") as refused:
            await routing(0, other_workers).answer(Everywhere.MODELS, changing)
        assert (refused.value.code, changing.order) == (Code.MODEL_NOT_READY, [])


async def test_one_change_of_a_kind_is_made_after_the_other(other_workers: OtherWorkers) -> None:
    lead, order = routing(0, other_workers), list[str]()
    await asyncio.gather(*(lead.answer(Everywhere.MODELS, Asked(0, order=order)) for _ in range(3)))
    assert order == ["here", "1-alone", "2-alone", "1 answers", "2 answers"] * 3


async def test_a_change_waits_for_none_of_another_kind(other_workers: OtherWorkers) -> None:
    lead, loading = routing(0, other_workers), Asked(0, silent=frozenset({1}))
    load = asyncio.ensure_future(lead.answer(Everywhere.MODELS, loading))
    await loading.has_begun.wait()
    for kind in (Everywhere.SHARED_MEMORY, Everywhere.LOGS):
        assert await lead.answer(kind, Asked(0)) == b"0"
    assert not load.done()


async def test_a_change_is_made_everywhere_though_its_caller_leaves(other_workers: OtherWorkers) -> None:
    lead, left, next_one = routing(0, other_workers), Asked(0), Asked(0)
    answer = asyncio.ensure_future(lead.answer(Everywhere.MODELS, left))
    await left.has_begun.wait()
    answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    await lead.answer(Everywhere.MODELS, next_one)
    assert left.order == next_one.order == ["here", "1-alone", "2-alone", "1 answers", "2 answers"]


@pytest.mark.parametrize(
    ("index", "silent", "told"), [(0, {1}, 2), (0, {1, 2}, 2), (0, {2}, 3), (1, {0}, 1)], ids=lambda given: f"{given}"
)
async def test_a_worker_that_does_not_answer_in_time_fails_the_sum(
    other_workers: OtherWorkers, index: int, silent: set[int], told: int
) -> None:
    impatient = Routing(crew(index), other_workers, frozenset[str], GilThread(), SumLimits(part_s=0.01, whole_s=0.01))
    asked = Asked(index, silent=frozenset(silent))
    with pytest.raises(ServingError, match=f"worker {told} of this server has not answered within 0.01 s") as refused:
        await impatient.answer(SUMMED, asked)
    assert refused.value.code is Code.DEADLINE_EXCEEDED
