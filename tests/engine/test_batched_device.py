"""Jobs that run together: each gets its own rows back, whatever happens to the others of its run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from math import prod
from struct import pack, unpack
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME, ElementType
from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.scheduling.job import Job, JobState, Result, Work, state_of
from inferwire_server.core.scheduling.lane import Terms
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.core.scheduling.stacks import is_whole, results
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.device import Device
from inferwire_server.engine.fake_backend import FakeModel, Gate, echo_spec
from inferwire_server.engine.model_slots import ModelSlots
from inferwire_server.engine.opening import Opened
from inferwire_server.errors import ServingError
from inferwire_server.tallies import Tallies

U32 = BY_NAME["u32"]
KINDS = (U32, BY_NAME["u4"], BY_NAME["string"])
POISON = 2**31
"""A value that no run gets through with."""
GONE = ServingError(Code.MODEL_NOT_READY, "unloaded by the test")
NOT_WANTED = ServingError(Code.CANCELLED, "not wanted")


def a_work(tag: int, rows: int = 1, width: int = 2, *, is_bad: bool = False, element_type: ElementType = U32) -> Work:
    """Make rows that each carry the tag of their caller and their own number."""
    values = [POISON if is_bad else tag * 1000 + row for row in range(rows) for _ in range(width)]
    elements = width * (32 // element_type.bits if element_type.bits else 1)
    return Work((Tensor(element_type, (rows, elements), written(values, element_type)),), (0,))


def stacked(works: Sequence[Work], *, one_by_one: bool = False) -> Work:
    """Put executions of equal shapes together, as a client does."""
    (first,) = works[0].inputs
    data = b"".join(bytes(work.inputs[0].data) for work in works)
    shape = (first.shape[0] * len(works), *first.shape[1:])
    return Work((Tensor(first.element_type, shape, data),), (0,), executions=len(works), one_by_one=one_by_one)


def data_of(result: Result) -> bytes:
    assert not isinstance(result, ServingError), result
    return bytes(result[0].data)


def answer_of(work: Work) -> bytes:
    (tensor,) = work.inputs
    return written([value + 7 for value in values_of(tensor)], tensor.element_type)


def written(values: Sequence[int], element_type: ElementType) -> bytes:
    """Write numbers of four bytes, whatever elements those are; or texts of all lengths."""
    if element_type.is_string:
        return strings.pack(f"{value}{'.' * (value % 5)}".encode() for value in values)
    return pack(f"<{len(values)}I", *values)


def values_of(tensor: Tensor) -> tuple[int, ...]:
    if tensor.element_type.is_string:
        texts = strings.unpack(tensor.data, prod(tensor.shape))
        return tuple(int(text.rstrip(b".")) for text in texts)
    return unpack(f"<{tensor.byte_size // 4}I", tensor.data)


def add_seven(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Compute something of each row that no other row has; fail for a poisoned one."""
    (tensor,) = inputs
    values = values_of(tensor)
    if POISON in values:
        raise ServingError(Code.INFERENCE_FAILED, "poisoned")
    return (Tensor(tensor.element_type, tensor.shape, written([v + 7 for v in values], tensor.element_type)),)


@dataclass
class Rig:
    """A device with one batched model that a test holds, and the shapes of its runs."""

    device: Device
    model: FakeModel
    runs: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])

    def submit(self, work: Work) -> tuple[Job, asyncio.Future[Job]]:
        loop = asyncio.get_running_loop()
        end: asyncio.Future[Job] = loop.create_future()
        job = Job("m", work, loop.time(), on_end=end.set_result)
        self.device.submit(job)
        return job, end

    async def held(self, count: int) -> None:
        await asyncio.to_thread(self.model.gate.wait_held, count)


class Caller(NamedTuple):
    """Who waits for one execution, what it is to give, and what its caller does meanwhile."""

    job: Job
    end: asyncio.Future[Job]
    position: int
    expected: bytes
    fate: str


@asynccontextmanager
async def a_rig(
    batching: Batching | None, slots: int = 1, *, is_open: bool = False, can_cancel: bool = True
) -> AsyncGenerator[Rig, None]:
    model = FakeModel(echo_spec("m"), gate=Gate(is_open=is_open), can_cancel=can_cancel)
    device = Device("CPU", Scheduler(1000), Tallies().of, asyncio.get_running_loop().time)
    device.add_model("m", Opened(model, ModelSlots.of(model, slots)), Terms(batching=batching))
    rig = Rig(device, model)

    def compute(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        rig.runs.append(inputs[0].shape)
        return add_seven(inputs)

    model.compute = compute
    yield rig
    model.gate.open()
    await device.remove_model("m", GONE)
    assert device.occupancy.running == 0
    device.close()


async def test_what_waits_runs_as_one_inference_and_each_gets_its_rows() -> None:
    async with a_rig(Batching(8)) as rig:
        works = [a_work(tag, rows=1 + tag % 3) for tag in range(4)]
        ends = [rig.submit(work)[1] for work in works]
        expected = [answer_of(work) for work in works]
        rig.model.gate.open()
        jobs = await asyncio.gather(*ends)
        assert [bytes(job.result()[0].data) for job in jobs] == expected
        assert [job.result()[0].shape for job in jobs] == [(1, 2), (2, 2), (3, 2), (1, 2)]
        assert rig.runs == [(1, 2), (6, 2)]


async def test_one_bad_input_fails_alone() -> None:
    async with a_rig(Batching(8)) as rig:
        rig.submit(a_work(0))
        works = [a_work(tag, is_bad=tag == 2) for tag in range(1, 4)]
        jobs = [rig.submit(work) for work in works]
        expected = [answer_of(work) for work in works]
        rig.model.gate.open()
        first, bad, last = [await end for _, end in jobs]
        assert bad.error is not None
        assert (bad.state, bad.error.message) == (JobState.FAILED, "poisoned")
        assert [bytes(job.result()[0].data) for job in (first, last)] == [expected[0], expected[2]]
        assert rig.runs == [(1, 2), (3, 2), (1, 2), (1, 2), (1, 2)]


async def test_a_model_that_loses_rows_at_run_time_answers_each_alone() -> None:
    async with a_rig(Batching(8)) as rig:
        rig.model.compute = lambda inputs: (Tensor(U32, (1, 2), inputs[0].data[:8]),)
        rig.submit(a_work(0))
        jobs = [rig.submit(a_work(tag)) for tag in (1, 2)]
        rig.model.gate.open()
        assert [values_of((await end).result()[0]) for _, end in jobs] == [(1000, 1000), (2000, 2000)]


async def test_a_job_cancelled_in_a_run_ends_at_once_and_the_others_get_their_rows() -> None:
    async with a_rig(Batching(8)) as rig:
        rig.submit(a_work(0))
        kept, dropped = a_work(1), a_work(2)
        _, first_end = rig.submit(kept)
        gone, gone_end = rig.submit(dropped)
        expected = answer_of(kept)
        await rig.held(1)
        rig.model.gate.let_through(1)
        await rig.held(1)
        rig.device.cancel(gone, NOT_WANTED)
        assert gone_end.done()
        assert gone.state is JobState.CANCELLED
        rig.model.gate.open()
        assert bytes((await first_end).result()[0].data) == expected


async def test_a_run_whose_jobs_are_all_cancelled_is_stopped() -> None:
    async with a_rig(Batching(8)) as rig:
        rig.submit(a_work(0))
        jobs = [rig.submit(a_work(tag))[0] for tag in (1, 2)]
        await rig.held(1)
        rig.model.gate.let_through(1)
        await rig.held(1)
        for job in jobs:
            rig.device.cancel(job, NOT_WANTED)
        await rig.held(0)
        assert [job.state for job in jobs] == [JobState.CANCELLED] * 2
        assert rig.runs == [(1, 2)]


async def test_few_rows_that_wait_run_when_the_delay_is_over() -> None:
    async with a_rig(Batching(8, 0.002), slots=2) as rig:
        rig.submit(a_work(0))
        rig.submit(a_work(1))
        await rig.held(2)
        assert rig.device.occupancy.running == 2


async def test_a_stack_runs_as_one_inference_and_ends_as_one() -> None:
    async with a_rig(Batching(8), is_open=True) as rig:
        works = [a_work(tag, rows=2) for tag in range(3)]
        expected = [answer_of(work) for work in works]
        job = await rig.submit(stacked(works))[1]
        assert is_whole(job)
        assert [data_of(result) for result in results(job)] == expected
        assert rig.runs == [(6, 2)]


async def test_a_stack_runs_with_what_waits_beside_it() -> None:
    async with a_rig(Batching(8)) as rig:
        rig.submit(a_work(0))
        ends = [rig.submit(work)[1] for work in (a_work(1), stacked([a_work(2), a_work(3)]), a_work(4))]
        rig.model.gate.open()
        jobs = [await end for end in ends]
        found = [data_of(result) for job in jobs for result in results(job)]
        assert found == [answer_of(a_work(tag)) for tag in range(1, 5)]
        assert rig.runs == [(1, 2), (4, 2)]


async def test_of_a_stack_that_fails_each_runs_alone_but_what_was_dropped() -> None:
    async with a_rig(Batching(8)) as rig:
        works = [a_work(tag, is_bad=tag == 2) for tag in range(4)]
        job, end = rig.submit(stacked(works))
        await rig.held(1)
        rig.device.drop(job, 0, NOT_WANTED)
        rig.model.gate.open()
        gone, one, bad, last = results(await end)
        assert isinstance(gone, ServingError)
        assert isinstance(bad, ServingError)
        assert (gone.code, bad.message) == (Code.CANCELLED, "poisoned")
        assert [data_of(one), data_of(last)] == [answer_of(works[1]), answer_of(works[3])]
        assert rig.runs == [(4, 2), (1, 2), (1, 2), (1, 2)]


async def test_a_model_that_loses_rows_of_a_stack_answers_each_alone() -> None:
    async with a_rig(Batching(8), is_open=True) as rig:
        rig.model.compute = lambda inputs: (Tensor(U32, (1, 2), inputs[0].data[:8]),)
        job = await rig.submit(stacked([a_work(1), a_work(2)]))[1]
        assert [values_of(Tensor(U32, (1, 2), data_of(result))) for result in results(job)] == [
            (1000, 1000),
            (2000, 2000),
        ]


async def test_a_stack_that_is_dropped_is_stopped_with_its_last_execution() -> None:
    async with a_rig(Batching(8)) as rig:
        job, end = rig.submit(stacked([a_work(1), a_work(2)]))
        await rig.held(1)
        rig.device.drop(job, 1, NOT_WANTED)
        assert not end.done()
        rig.device.drop(job, 0, NOT_WANTED)
        assert (await end).state is JobState.CANCELLED
        await rig.held(0)
        assert rig.runs == []


async def test_a_stack_that_runs_one_by_one_ends_as_one() -> None:
    async with a_rig(None) as rig:
        works = [a_work(tag, rows=2) for tag in range(3)]
        job, end = rig.submit(stacked(works, one_by_one=True))
        await rig.held(1)
        assert rig.device.occupancy.queued == 0
        rig.model.gate.open()
        assert await end is job
        assert is_whole(job)
        assert [data_of(result) for result in results(job)] == [answer_of(work) for work in works]
        assert rig.runs == [(2, 2)] * 3


async def test_what_is_dropped_of_a_stack_that_runs_one_by_one_does_not_run() -> None:
    async with a_rig(None) as rig:
        works = [a_work(0), a_work(1, is_bad=True), a_work(2), a_work(3)]
        job, end = rig.submit(stacked(works, one_by_one=True))
        await rig.held(1)
        rig.device.drop(job, 2, NOT_WANTED)
        rig.model.gate.open()
        first, bad, gone, last = results(await end)
        assert [state_of(result) for result in (bad, gone)] == [JobState.FAILED, JobState.CANCELLED]
        assert [data_of(first), data_of(last)] == [answer_of(works[0]), answer_of(works[3])]
        assert len(rig.runs) == 3


async def test_a_stack_that_is_cancelled_runs_no_further() -> None:
    async with a_rig(None) as rig:
        job, end = rig.submit(stacked([a_work(tag) for tag in range(4)], one_by_one=True))
        await rig.held(1)
        rig.device.cancel(job, NOT_WANTED)
        assert end.done()
        await rig.held(0)
        assert rig.runs == []


def give_what_has_gone(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Give an output that nobody can read."""
    data = memoryview(inputs[0].data)[:]
    data.release()
    return (inputs[0]._replace(data=data),)


async def test_results_that_cannot_be_put_together_fail_their_job_and_its_slot_goes_on() -> None:
    async with a_rig(None, is_open=True) as rig:
        rig.model.compute = give_what_has_gone
        with capture_logs() as logs:
            job = await rig.submit(stacked([a_work(0), a_work(1)], one_by_one=True))[1]
        assert job.error is not None
        assert job.error.message == f"a bug in the server; its log has more under id {logs[-1]['id']}"
        rig.model.compute = add_seven
        assert data_of((await rig.submit(a_work(2))[1]).result()) == answer_of(a_work(2))


async def test_work_that_cannot_be_taken_apart_fails_its_job_and_its_slot_goes_on() -> None:
    async with a_rig(None, is_open=True) as rig:
        with capture_logs():
            job = await rig.submit(Work((Tensor(U32, (), bytes(4)),), (0,), executions=2, one_by_one=True))[1]
        assert job.error is not None
        assert job.error.code is Code.INTERNAL
        assert data_of((await rig.submit(a_work(2))[1]).result()) == answer_of(a_work(2))


actions = st.lists(
    st.tuples(
        st.integers(1, 5),
        st.integers(1, 2),
        st.lists(
            st.sampled_from(["keep", "keep", "keep", "bad", "cancel soon", "cancel late"]), min_size=1, max_size=3
        ),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60)
@given(actions, st.integers(1, 3), st.sampled_from([0.0, 0.001, None]), st.booleans(), st.sampled_from(KINDS))
def test_a_result_never_reaches_the_wrong_caller(
    plan: list[tuple[int, int, list[str]]], slots: int, delay_s: float | None, can_cancel: bool, kind: ElementType
) -> None:
    """Without a delay nothing runs together, and stacks run one by one."""
    batching = None if delay_s is None else Batching(4, delay_s)

    async def play() -> None:
        async with a_rig(batching, slots, can_cancel=can_cancel) as rig:
            tags = count()
            callers: list[Caller] = []
            for rows, width, fates in plan:
                works = [a_work(next(tags), rows, width, is_bad=fate == "bad", element_type=kind) for fate in fates]
                expected = [answer_of(work) for work in works]
                job, end = rig.submit(stacked(works, one_by_one=batching is None))
                callers += [Caller(job, end, at, expected[at], fate) for at, fate in enumerate(fates)]
            for caller in callers:
                if caller.fate == "cancel soon":
                    rig.device.drop(caller.job, caller.position, NOT_WANTED)
            rig.model.gate.open()
            for caller in callers:
                if caller.fate == "cancel late":
                    await asyncio.to_thread(int)
                    rig.device.drop(caller.job, caller.position, NOT_WANTED)
            for caller in callers:
                result = results(await caller.end)[caller.position]
                match state_of(result):
                    case JobState.FINISHED:
                        assert data_of(result) == caller.expected
                        assert caller.fate in ("keep", "cancel late")
                    case JobState.FAILED:
                        assert caller.fate == "bad"
                    case state:
                        assert state is JobState.CANCELLED
                        assert caller.fate.startswith("cancel")

    asyncio.run(play())
