"""Callers' sequences: whose states an inference runs on, and when they are let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

import pytest
from tests.busy_threads import BusyThreads
from tests.waiting import a_turn

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import JobState
from inferwire_server.core.sessions import Session
from inferwire_server.core.states import ReadStates, ResetStates, WriteStates
from inferwire_server.core.tensors import LARGE, Tensor
from inferwire_server.engine.fake_backend import FakeModel, Gate, count_of, count_state, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition
from inferwire_server.service.values import Inference, SequenceCall, ServedModel, Wanted

Serving = Callable[..., AbstractAsyncContextManager[Composition]]
Leap = Callable[[float], None]
Counting = Callable[..., AbstractAsyncContextManager["Rig"]]

ROW = Tensor(BY_NAME["f32"], (1, 4), bytes(16))
LARGE_STATE = Tensor(BY_NAME["string"], (LARGE,), bytes(4 * LARGE))
MODEL = ServedModel("m")


class Rig:
    """A server with one model whose state counts the inferences that ran on it."""

    def __init__(self, server: Composition, model: FakeModel) -> None:
        self.server = server
        self.model = model
        self.inference = server.services.inference

    def call(self, sequence_id: int | str, session: Session | None = None, **flags: bool) -> Inference:
        return Inference(Wanted(MODEL, sequence=SequenceCall(sequence_id, session, **flags)), (("x", ROW),))

    async def infer(self, sequence_id: int | str, session: Session | None = None, **flags: bool) -> None:
        (await self.inference.infer(self.call(sequence_id, session, **flags))).result()

    async def count(self, sequence_id: int | str, session: Session | None = None) -> int:
        job = await self.inference.access_states(MODEL, SequenceCall(sequence_id, session), ReadStates())
        return count_of(job.result()[0])

    async def write(self, sequence_id: int, value: Tensor) -> None:
        call = SequenceCall(sequence_id, is_start=True)
        (await self.inference.access_states(MODEL, call, WriteStates((("count", value),)))).result()

    @property
    def bound(self) -> int:
        (device,) = self.server.engine.devices
        return sum(device.occupancy_of(model).bound for model in device.models)


@pytest.fixture
def counting(serving: Serving) -> Counting:
    @asynccontextmanager
    async def composed(*, is_open: bool = True, **settings: object) -> AsyncGenerator[Rig, None]:
        spec = replace(echo_spec("m"), states=("count",))
        model = FakeModel(spec, gate=Gate(is_open=is_open), optimal_slots=2)
        async with serving(model, **settings) as server:
            yield Rig(server, model)

    return composed


async def refused(call: Awaitable[object]) -> ServingError:
    with pytest.raises(ServingError) as caught:
        await call
    return caught.value


async def test_sequences_run_on_states_of_their_own(counting: Counting) -> None:
    async with counting() as rig:
        for sequence_id, times in ((1, 3), ("a", 1), (2**63, 2)):
            await rig.infer(sequence_id, is_start=True)
            for _ in range(times - 1):
                await rig.infer(sequence_id)
        assert [await rig.count(each) for each in (1, "a", 2**63)] == [3, 1, 2]
        assert rig.bound == 3


async def test_a_start_begins_anew_and_an_end_lets_the_states_go(counting: Counting) -> None:
    async with counting() as rig:
        await rig.infer(1, is_start=True)
        await rig.infer(1)
        await rig.infer(1, is_start=True)
        assert await rig.count(1) == 1
        await rig.infer(1, is_end=True)
        assert rig.bound == 0
        error = await refused(rig.infer(1))
        assert error.code is Code.SEQUENCE_NOT_FOUND
        assert error.message.startswith(
            "inference request for sequence 1 to model 'm' must specify the START flag on the first request"
        )


async def test_sessions_do_not_see_each_other_s_sequences(counting: Counting) -> None:
    async with counting() as rig:
        mine, yours = Session("mine", ""), Session("yours", "")
        for session in (mine, yours, None):
            await rig.infer(1, session, is_start=True)
        await rig.infer(1, mine)
        await rig.infer(2, mine, is_start=True)
        assert [await rig.count(1, session) for session in (mine, yours, None)] == [2, 1, 1]
        rig.inference.release_sequences(mine, [1, 99])
        assert (await refused(rig.infer(1, mine))).code is Code.SEQUENCE_NOT_FOUND
        assert await rig.count(1, yours) == await rig.count(2, mine) == 1


async def test_states_are_read_written_and_reset_behind_the_inferences_before(counting: Counting) -> None:
    async with counting(is_open=False) as rig:
        first = asyncio.ensure_future(rig.infer(1, is_start=True))
        second = asyncio.ensure_future(rig.infer(1))
        await asyncio.to_thread(rig.model.gate.wait_held, 1)
        reading = asyncio.ensure_future(rig.count(1))
        rig.model.gate.open()
        await asyncio.gather(first, second)
        assert await reading == 2
        for access, count in ((WriteStates((("count", count_state(7)),)), 7), (ResetStates(), 0)):
            (await rig.inference.access_states(MODEL, SequenceCall(1), access)).result()
            assert await rig.count(1) == count


async def test_a_sequence_may_begin_with_its_states(counting: Counting) -> None:
    async with counting() as rig:
        start = SequenceCall(1, is_start=True)
        await rig.inference.access_states(MODEL, start, WriteStates((("count", count_state(41)),)))
        await rig.infer(1)
        assert await rig.count(1) == 42


async def test_an_inference_without_a_sequence_leaves_nothing_behind(counting: Counting) -> None:
    async with counting() as rig:
        await rig.inference.infer(Inference(Wanted(MODEL), (("x", ROW),)))
        assert rig.bound == 0


async def test_one_caller_too_many_is_refused_and_the_others_keep_their_states(counting: Counting) -> None:
    async with counting(max_sequences=1) as rig:
        await rig.infer(1, is_start=True)
        error = await refused(rig.infer(2, is_start=True))
        assert (error.code, error.retry_after_s) == (Code.QUEUE_FULL, 1.0)
        assert await rig.count(1) == 1
        await rig.infer(1, is_end=True)
        await rig.infer(2, is_start=True)


@pytest.mark.parametrize("ends", [True, False], ids=["after its end", "without one"])
async def test_a_start_takes_the_place_that_its_own_sequence_leaves(counting: Counting, ends: bool) -> None:
    async with counting(is_open=False, max_sequences=1) as rig:
        before = [asyncio.ensure_future(rig.infer(1, is_start=True)), asyncio.ensure_future(rig.infer(1, is_end=ends))]
        await asyncio.to_thread(rig.model.gate.wait_held, 1)
        anew = [asyncio.ensure_future(rig.infer(1, is_start=flag)) for flag in (True, True, False)]
        other = asyncio.ensure_future(rig.infer(2, is_start=True))
        assert (await refused(other)).code is Code.QUEUE_FULL
        assert not any(call.done() for call in (*before, *anew))
        rig.model.gate.open()
        await asyncio.gather(*before, *anew)
        assert await rig.count(1) == 2
        assert rig.bound == 1


async def test_what_has_ended_is_not_under_way_though_its_last_job_is(counting: Counting) -> None:
    async with counting(is_open=False) as rig:
        last = asyncio.ensure_future(rig.infer(1, is_start=True, is_end=True))
        await asyncio.to_thread(rig.model.gate.wait_held, 1)
        assert (await refused(rig.infer(1))).code is Code.SEQUENCE_NOT_FOUND
        rig.model.gate.open()
        await last
        assert rig.bound == 0


async def test_where_callers_may_wait_the_next_one_runs_when_a_sequence_ends(counting: Counting) -> None:
    async with counting(max_sequences=1, sequences_wait=True) as rig:
        await rig.infer(1, is_start=True)
        waiting = asyncio.ensure_future(rig.infer(2, is_start=True))
        await rig.infer(1)
        assert not waiting.done()
        await rig.infer(1, is_end=True)
        await waiting
        assert await rig.count(2) == 1


@pytest.mark.parametrize("sequences_wait", [False, True])
async def test_a_sequence_that_begins_anew_keeps_its_place(counting: Counting, *, sequences_wait: bool) -> None:
    async with counting(max_sequences=1, sequences_wait=sequences_wait) as rig:
        await rig.infer(1, is_start=True)
        waiting = [asyncio.ensure_future(rig.infer(2, is_start=True))] if sequences_wait else []
        await rig.infer(1)
        await rig.infer(1, is_start=True)
        assert await rig.count(1) == 1
        assert rig.bound == 1 + len(waiting)
        assert not any(call.done() for call in waiting)
        await rig.infer(1, is_end=True)
        await asyncio.gather(*waiting)


async def test_a_caller_that_stops_waiting_makes_room_for_the_next(counting: Counting) -> None:
    async with counting(max_sequences=1, sequences_wait=True) as rig:
        await rig.infer(1, is_start=True)
        waits = rig.call(2, is_start=True)
        hurried = waits._replace(wanted=waits.wanted._replace(timeout_s=0.0))
        assert (await rig.inference.infer(hurried)).state is JobState.EXPIRED
        assert rig.bound == 1
        assert (await refused(rig.infer(2))).code is Code.SEQUENCE_NOT_FOUND
        await rig.infer(1, is_end=True)
        await rig.infer(3, is_start=True)
        assert rig.bound == 1


async def test_a_start_that_was_given_up_may_come_again(counting: Counting) -> None:
    async with counting(max_sequences=1, sequences_wait=True) as rig:
        await rig.infer(1, is_start=True)
        first = asyncio.ensure_future(rig.infer(2, is_start=True))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        again = asyncio.ensure_future(rig.infer(2, is_start=True))
        await rig.infer(1, is_end=True)
        await again
        assert await rig.count(2) == 1
        assert rig.bound == 1


async def test_a_sequence_nobody_continues_is_let_go(counting: Counting, leap: Leap) -> None:
    async with counting(sequence_idle_s=5.0) as rig:
        await rig.infer(1, is_start=True)
        leap(4.0)
        await rig.infer(1)
        leap(4.0)
        assert await rig.count(1) == 2
        leap(6.0)
        await rig.infer(2, is_start=True)
        assert (await refused(rig.infer(1))).code is Code.SEQUENCE_NOT_FOUND
        assert rig.bound == 1


async def test_a_session_s_end_frees_its_states(counting: Counting) -> None:
    async with counting(session_grace_s=0.0) as rig:
        sessions = rig.server.services.sessions
        session = sessions.attach("", "test")
        await rig.infer(1, session, is_start=True)
        await rig.infer(1, is_start=True)
        sessions.detach(session)
        # The reaper has its turn while these run, long before they have all ended.
        for _ in range(20):
            await rig.infer(1)
        assert rig.bound == 1
        assert await rig.count(1) == 21


async def test_a_refused_first_inference_binds_nothing(counting: Counting) -> None:
    async with counting(is_open=False, queue_capacity=1) as rig:
        busy = [asyncio.ensure_future(rig.inference.infer(Inference(Wanted(MODEL), (("x", ROW),)))) for _ in range(3)]
        await asyncio.to_thread(rig.model.gate.wait_held, 2)
        assert (await refused(rig.infer(1, is_start=True))).code is Code.QUEUE_FULL
        assert rig.bound == 0
        rig.model.gate.open()
        await asyncio.gather(*busy)


async def test_a_reload_ends_the_sequences_of_the_old_model(counting: Counting) -> None:
    async with counting() as rig:
        await rig.infer(1, is_start=True)
        await rig.server.loader.load("m")
        error = await refused(rig.infer(1))
        assert error.code is Code.SEQUENCE_NOT_FOUND
        assert error.message.endswith(
            ": it never started, has ended, was idle for too long, or began before the model was reloaded"
        )
        await rig.infer(1, is_start=True)
        assert await rig.count(1) == 1


@pytest.mark.parametrize("limits", [{"max_sequences": 1}, {"queue_capacity": 1}], ids=["callers", "jobs"])
async def test_a_refused_start_leaves_the_session_s_sequence_on_another_model(
    serving: Serving, limits: dict[str, int]
) -> None:
    models = [FakeModel(replace(echo_spec(name), states=("count",)), optimal_slots=1) for name in ("m", "full")]
    async with serving(*models, **limits) as server:
        rig, full = Rig(server, models[0]), ServedModel("full")
        mine, yours = Session("mine", ""), Session("yours", "")
        await rig.infer(1, mine, is_start=True)
        start = Inference(Wanted(full, sequence=SequenceCall(1, yours, is_start=True)), (("x", ROW),))
        (await rig.inference.infer(start)).result()
        models[1].gate.close()
        busy = [asyncio.ensure_future(rig.inference.infer(Inference(Wanted(full), (("x", ROW),)))) for _ in range(2)]
        await asyncio.to_thread(models[1].gate.wait_held, 1)
        refused_start = start._replace(wanted=start.wanted._replace(sequence=SequenceCall(1, mine, is_start=True)))
        assert (await refused(rig.inference.infer(refused_start))).code is Code.QUEUE_FULL
        models[1].gate.open()
        await asyncio.gather(*busy)
        assert await rig.count(1, mine) == 1


async def test_sequences_of_one_id_on_two_models_are_two_and_are_released_together(serving: Serving) -> None:
    models = [FakeModel(replace(echo_spec(name), states=("count",))) for name in ("m", "other")]
    async with serving(*models) as server:
        rig, session = Rig(server, models[0]), Session("mine", "")
        await rig.infer(1, session, is_start=True)
        start = Inference(Wanted(ServedModel("other"), sequence=SequenceCall(1, session, is_start=True)), (("x", ROW),))
        (await rig.inference.infer(start)).result()
        await rig.infer(1, session)
        assert await rig.count(1, session) == 2
        assert rig.bound == 2
        rig.inference.release_sequences(session, [1])
        assert rig.bound == 0


async def test_large_values_of_states_are_checked_on_a_thread(counting: Counting, threads: BusyThreads) -> None:
    async with counting() as rig:
        threads.occupy()
        write = asyncio.ensure_future(rig.write(1, LARGE_STATE))
        await a_turn()
        assert rig.bound == 0
        await rig.infer(2, is_start=True)
        threads.leave()
        await write
        assert rig.bound == 2


async def test_a_model_may_have_gone_when_large_values_are_checked(counting: Counting, threads: BusyThreads) -> None:
    async with counting() as rig:
        threads.occupy()
        write = asyncio.ensure_future(rig.write(1, LARGE_STATE))
        await a_turn()
        await rig.inference.drain(0)
        threads.leave()
        assert (await refused(write)).code is Code.SHUTTING_DOWN
        assert rig.bound == 0


async def test_a_model_without_states_runs_sequences_as_any_inference(serving: Serving) -> None:
    async with serving(FakeModel(echo_spec("m"))) as server:
        inference = server.services.inference
        job = await inference.infer(Inference(Wanted(MODEL, sequence=SequenceCall(1)), (("x", ROW),)))
        assert job.result() == (ROW,)
        error = await refused(inference.access_states(MODEL, SequenceCall(1), ReadStates()))
        assert (error.code, error.message) == (Code.INVALID_INPUT, "model 'm' keeps no states")


async def test_the_scrape_says_how_many_sequences_are_under_way(counting: Counting) -> None:
    async with counting() as rig:
        await rig.infer(1, is_start=True)
        assert b'inferwire_sequences{device="CPU",model="m",version="1"} 1.0' in rig.server.metrics.scrape().text()
