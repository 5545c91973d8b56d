"""Tensors that sessions keep: bounded, theirs alone, and freed with them."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace

import numpy as np
import pytest
from tests.busy_threads import BusyThreads
from tests.waiting import until

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.boxes import Box
from inferwire_server.core.scheduling.job import Job
from inferwire_server.core.sessions import Session
from inferwire_server.core.tensors import LARGE, Tensor
from inferwire_server.engine.fake_backend import FakeModel, Gate, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.host.machine import memory_bytes
from inferwire_server.server import Composition
from inferwire_server.service.tensors import TensorLimits, TensorService
from inferwire_server.service.values import Inference, ServedModel, StoredTensor, Wanted
from inferwire_server.settings import MEBIBYTE

Serving = Callable[..., AbstractAsyncContextManager[Composition]]

F32 = BY_NAME["f32"]
ARRAY = np.arange(8, dtype=np.float32).reshape(2, 4)
TENSOR = Tensor(F32, (2, 4), ARRAY.tobytes())


@pytest.fixture
def session() -> Session:
    return Session("s", "test")


@pytest.fixture
def tensors() -> TensorService:
    return TensorService(TensorLimits(2000, 3000))


async def test_a_tensor_begins_with_zeros_and_takes_what_is_written(tensors: TensorService, session: Session) -> None:
    stored = StoredTensor(session, 1)
    tensors.create(stored, F32, (2, 4))
    assert tensors.get(stored) == Tensor(F32, (2, 4), bytes(32))
    await tensors.put(stored, TENSOR)
    assert tensors.get(stored) == TENSOR
    row = StoredTensor(session, 1, Box((1, 0), (2, 4)))
    await tensors.put(row, Tensor(F32, (1, 4), bytes(16)))
    assert tensors.get(row).data == bytes(16)
    assert bytes(tensors.get(stored).data) == ARRAY[:1].tobytes() + bytes(16)


@pytest.fixture
def large(session: Session) -> tuple[TensorService, StoredTensor]:
    """A tensor that takes its time to copy."""
    tensors, stored = TensorService(TensorLimits(1 << 30, 1 << 30)), StoredTensor(session, 1)
    tensors.create(stored, BY_NAME["u8"], (LARGE + 1,))
    return tensors, stored


def byte_at(stored: StoredTensor, at: int) -> StoredTensor:
    return StoredTensor(stored.session, stored.id, Box((at,), (at + 1,)))


A_BYTE = Tensor(BY_NAME["u8"], (1,), b"x")


async def test_a_box_of_a_large_tensor_is_written_on_a_thread_and_who_reads_meanwhile_sees_none_of_it(
    large: tuple[TensorService, StoredTensor], threads: BusyThreads
) -> None:
    tensors, stored = large
    threads.occupy()
    before = tensors.get(stored)
    writes = [asyncio.ensure_future(tensors.put(byte_at(stored, at), A_BYTE)) for at in (0, 7, LARGE)]
    await asyncio.sleep(0)
    assert tensors.get(stored) is before
    threads.leave()
    await asyncio.gather(*writes)
    assert not any(before.data)
    written = bytes(tensors.get(stored).data)
    assert [at for at in range(len(written)) if written[at]] == [0, 7, LARGE]


async def test_a_box_of_a_large_tensor_is_read_on_a_thread_and_holds_none_of_what_is_written_meanwhile(
    large: tuple[TensorService, StoredTensor], threads: BusyThreads
) -> None:
    tensors, stored = large
    threads.occupy()
    read = asyncio.ensure_future(tensors.read(byte_at(stored, 7)))
    await asyncio.sleep(0)
    await tensors.put(stored, Tensor(BY_NAME["u8"], (9,), b"123456789"))
    assert not read.done()
    threads.leave()
    assert bytes((await read).data) == b"\0"
    assert bytes((await tensors.read(byte_at(stored, 7))).data) == b"8"


async def test_what_is_written_while_a_box_waits_for_its_thread_stays(
    large: tuple[TensorService, StoredTensor], threads: BusyThreads
) -> None:
    tensors, stored = large
    threads.occupy()
    write = asyncio.ensure_future(tensors.put(byte_at(stored, 7), A_BYTE))
    await asyncio.sleep(0)
    await tensors.put(stored, Tensor(BY_NAME["u8"], (9,), b"123456789"))
    threads.leave()
    await write
    assert tensors.get(stored).data == b"1234567x9"


async def test_a_tensor_that_is_released_while_it_is_written_stays_so(
    large: tuple[TensorService, StoredTensor], threads: BusyThreads
) -> None:
    tensors, stored = large
    whole = Tensor(BY_NAME["u8"], (LARGE + 2,), bytes(LARGE + 2))
    threads.occupy()
    writes = [asyncio.ensure_future(tensors.put(*each)) for each in ((byte_at(stored, 7), A_BYTE), (stored, whole))]
    await asyncio.sleep(0)
    tensors.release(stored.session, [stored.id])
    threads.leave()
    for write in writes:
        with pytest.raises(ServingError, match="tensor 1 is not kept in this session"):
            await write
    assert repr(tensors) == "<TensorService: 0 tensors of 1 sessions>"


async def test_a_large_tensor_is_kept_without_the_message_that_it_came_with(
    large: tuple[TensorService, StoredTensor],
) -> None:
    tensors, stored = large
    message = memoryview(bytes(LARGE + 100))
    await tensors.put(stored, Tensor(BY_NAME["u8"], (LARGE + 2,), message[3 : LARGE + 5]))
    assert held_by(tensors.get(stored)) == LARGE + 2


@pytest.mark.parametrize("shape", [(-1,), (2**63 - 1,) * 300], ids=["negative", "of many dimensions"])
def test_no_tensor_is_made_of_a_shape_that_is_none(
    tensors: TensorService, session: Session, shape: tuple[int, ...]
) -> None:
    with pytest.raises(ServingError, match=r"tensor 1 has .*, expected") as caught:
        tensors.create(StoredTensor(session, 1), F32, shape)
    assert caught.value.code is Code.INVALID_INPUT


def test_strings_are_kept_whole(tensors: TensorService, session: Session) -> None:
    stored = StoredTensor(session, 1)
    tensors.create(stored, BY_NAME["string"], (3,))
    assert tensors.get(stored).data == bytes(12)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (Tensor(BY_NAME["i32"], (2, 4), bytes(32)), "tensor 1 is of type f32, but what is to be written is i32"),
        (Tensor(F32, (2, 4), bytes(31)), "tensor 1 has 31 bytes, expected 32 for f32"),
        (Tensor(F32, (-2, -4), bytes(32)), "tensor 1 has shape [-2,-4], expected dimensions from 0 to"),
        (Tensor(F32, (0, 2**62), b""), "tensor 1 has shape [0,4611686018427387904], expected at most"),
        (Tensor(F32, (2**63 - 1,) * 64, b"1"), f"tensor 1 has 1 bytes, expected {4 * (2**63 - 1) ** 64} for f32"),
        (Tensor(F32, (2**63 - 1,) * 300, b"1"), "tensor 1 has 300 dimensions, expected at most 64"),
        (Tensor(F32, (50, 10), bytes(2000)), "a tensor of 2000 bytes is too much for this session, which keeps 624 of"),
    ],
)
async def test_what_does_not_fit_changes_nothing(
    tensors: TensorService, session: Session, written: Tensor, sentence: str
) -> None:
    stored = StoredTensor(session, 1)
    tensors.create(stored, F32, (2, 4))
    with pytest.raises(ServingError) as caught:
        await tensors.put(stored, written)
    assert caught.value.message.startswith(sentence)
    assert tensors.get(stored).data == bytes(32)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (Tensor(BY_NAME["boolean"], (2,), bytes(3)), "tensor 1 has 3 bytes, expected 2 for boolean[2]"),
        (Tensor(BY_NAME["boolean"], (2,), b"\1\7"), "tensor 1 has a boolean that is neither 0 nor 1"),
        (Tensor(BY_NAME["boolean"], (1,), b"\1"), "the part is boolean[1], expected boolean[2] for the box [1..3]"),
        (Tensor(BY_NAME["u8"], (2,), bytes(2)), "the part is u8[2], expected boolean[2] for the box [1..3]"),
    ],
)
async def test_what_does_not_fit_a_box_changes_nothing(
    tensors: TensorService, session: Session, written: Tensor, sentence: str
) -> None:
    tensors.create(StoredTensor(session, 1), BY_NAME["boolean"], (4,))
    with pytest.raises(ServingError) as caught:
        await tensors.put(StoredTensor(session, 1, Box((1,), (3,))), written)
    assert (caught.value.code, caught.value.message) == (Code.INVALID_INPUT, sentence)
    assert tensors.get(StoredTensor(session, 1)).data == bytes(4)


async def test_what_is_written_may_have_another_rank(tensors: TensorService, session: Session) -> None:
    stored = StoredTensor(session, 1)
    tensors.create(stored, F32, (2, 4))
    await tensors.put(stored, Tensor(F32, (3,), bytes(12)))
    assert tensors.get(stored) == Tensor(F32, (3,), bytes(12))


def test_a_session_keeps_so_much_and_no_more_and_what_is_freed_makes_room(
    tensors: TensorService, session: Session
) -> None:
    for index in (1, 2, 3):
        tensors.create(StoredTensor(session, index), F32, (2, 4))
    with pytest.raises(ServingError, match="keeps 1872 of at most 2000 bytes; free some first, or start") as caught:
        tensors.create(StoredTensor(session, 4), F32, (2, 4))
    assert caught.value.code is Code.TOO_LARGE
    tensors.create(StoredTensor(session, 1), F32, (9,))
    tensors.release(session, [2, 99])
    tensors.create(StoredTensor(session, 4), F32, (8,))
    tensors.create(StoredTensor(Session("other", ""), 1), F32, (25,))
    assert repr(tensors) == "<TensorService: 4 tensors of 2 sessions>"
    tensors.end(session)
    assert repr(tensors) == "<TensorService: 1 tensors of 1 sessions>"


def test_strings_that_would_take_too_much_are_refused_before_they_do(tensors: TensorService, session: Session) -> None:
    with pytest.raises(ServingError, match=f"a tensor of {2**52} bytes is too much") as caught:
        tensors.create(StoredTensor(session, 1), BY_NAME["string"], (2**50,))
    assert caught.value.code is Code.TOO_LARGE


async def test_all_sessions_together_keep_so_much_and_no_more(tensors: TensorService, session: Session) -> None:
    other, third = Session("other", ""), Session("third", "")
    tensors.create(StoredTensor(session, 1), F32, (300,))
    tensors.create(StoredTensor(other, 1), F32, (120,))
    with pytest.raises(ServingError) as caught:
        tensors.create(StoredTensor(third, 1), F32, (150,))
    assert caught.value.code is Code.TOO_LARGE
    assert caught.value.message == (
        "a tensor of 600 bytes is too much for this server, which keeps 2784 of at most 3000 bytes; "
        "free some first, or start the server with a larger --max-tensors-mb"
    )
    await tensors.put(StoredTensor(other, 1), Tensor(F32, (130,), bytes(520)))
    tensors.release(session, [1])
    tensors.create(StoredTensor(third, 1), F32, (300,))
    tensors.end(third)
    tensors.end(third)
    tensors.create(StoredTensor(session, 1), F32, (300,))
    with pytest.raises(ServingError, match="which keeps 2824 of at most 3000 bytes"):
        tensors.create(StoredTensor(third, 1), F32, (1,))


@pytest.mark.parametrize("shape", [(0,), (0,) * 200])
def test_tensors_of_nothing_are_counted(tensors: TensorService, session: Session, shape: tuple[int, ...]) -> None:
    kept = 0
    with suppress(ServingError):
        for kept in range(5):
            tensors.create(StoredTensor(session, kept + 1), F32, shape)
    assert kept == (3 if len(shape) == 1 else 0)


async def test_what_all_sessions_keep_is_shown_with_what_they_may(serving: Serving) -> None:
    async with serving(max_tensors_mb=1) as server:
        session = server.services.sessions.attach("", "c")
        server.services.tensors.create(StoredTensor(session, 1), F32, (300,))
        said = server.metrics.scrape().text().decode()
        assert f"inferwire_kept_tensor_bytes {1200 + 512 + 40}.0" in said
        assert "inferwire_kept_tensor_bytes_limit 1.048576e+06" in said


async def test_the_share_of_a_worker_is_as_small_as_they_are_many(serving: Serving, session: Session) -> None:
    quarter = memory_bytes() // 4
    async with serving(max_session_tensors_mb=1 << 40, workers=4) as server:
        with pytest.raises(ServingError, match=f"keeps 0 of at most {quarter // 2} bytes"):
            server.services.tensors.create(StoredTensor(session, 1), BY_NAME["u8"], (quarter // 2,))


@pytest.mark.parametrize("limit", ["max_tensors_mb", "max_session_tensors_mb"])
async def test_an_output_that_there_is_no_room_for_is_given(serving: Serving, session: Session, limit: str) -> None:
    async with serving(FakeModel(echo_spec("m")), **{limit: 0}) as server:
        keeps = {0: StoredTensor(session, 7)}
        job = await server.services.inference.infer(Inference(Wanted(ServedModel("m"), keeps=keeps), (("x", TENSOR),)))
        assert job.result() == (TENSOR,)


def test_a_size_that_nobody_has_memory_for_is_refused_before_it_is_made(
    tensors: TensorService, session: Session
) -> None:
    for shape in ((2**62,), (-1, 4)):
        with pytest.raises(ServingError):
            tensors.create(StoredTensor(session, 1), F32, shape)


def test_a_session_sees_its_own_and_one_that_has_ended_keeps_nothing(tensors: TensorService, session: Session) -> None:
    tensors.create(StoredTensor(session, 1), F32, (1,))
    with pytest.raises(ServingError, match="tensor 1 is not kept in this session"):
        tensors.get(StoredTensor(Session("other", ""), 1))
    session.has_ended = True
    with pytest.raises(ServingError) as caught:
        tensors.create(StoredTensor(session, 2), F32, (1,))
    assert caught.value.code is Code.SESSION_EXPIRED


async def test_an_output_that_is_kept_is_the_next_inference_s_input(serving: Serving, session: Session) -> None:
    async with serving(FakeModel(echo_spec("m"))) as server:
        services = server.services
        kept = StoredTensor(session, 7)
        first = await services.inference.infer(Inference(Wanted(ServedModel("m"), keeps={0: kept}), (("x", TENSOR),)))
        (output,) = first.result()
        assert (output.stored_as, output.byte_size, output.shape) == (7, 0, (2, 4))
        box = StoredTensor(session, 7, Box((1, 0), (2, 4)))
        second = await services.inference.infer(Inference(Wanted(ServedModel("m")), (("x", box),)))
        assert bytes(second.result()[0].data) == ARRAY[1:].tobytes()
        services.tensors.release(session, [7])
        with pytest.raises(ServingError, match="tensor 7 is not kept in this session"):
            await services.inference.infer(Inference(Wanted(ServedModel("m")), (("x", kept),)))


@pytest.mark.parametrize(
    ("names", "box", "sentence"),
    [
        (["x"] * 20, (16_384, 4), "input 'x' of model 'm' is given twice"),
        (["unknown"], (16_384, 4), "input 'unknown' of model 'm' is not known, expected one of 'x'"),
        (["x"], (16_384, 3), r"input 'x' of model 'm' has shape [16384,3], expected [?,4]"),
    ],
)
async def test_boxes_are_not_copied_for_what_is_refused(
    serving: Serving, session: Session, names: list[str], box: tuple[int, int], sentence: str
) -> None:
    async with serving(FakeModel(echo_spec("m"))) as server:
        services, kept = server.services, StoredTensor(session, 7, Box((0, 0), box))
        services.tensors.create(kept, F32, (16_384, 4))
        inference = Inference(Wanted(ServedModel("m")), tuple((name, kept) for name in names))
        tracemalloc.start()
        try:
            with pytest.raises(ServingError) as caught:
                services.inference.submit(inference, lambda _: None)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert caught.value.message == sentence
        assert most < 0.5 * 16_384 * 16


async def test_boxes_are_copied_as_their_jobs_run_and_not_while_they_wait(serving: Serving, session: Session) -> None:
    model = FakeModel(echo_spec("m"), gate=Gate(is_open=False), optimal_slots=1)
    async with serving(model) as server:
        inference, tensors = server.services.inference, server.services.tensors
        stored = StoredTensor(session, 1)
        tensors.create(stored, F32, (16_384, 8))
        right = replace(stored, box=Box((0, 4), (16_384, 8)))
        await tensors.put(right, Tensor(F32, (16_384, 4), b"abcd" * 4 * 16_384))
        ends = [asyncio.get_running_loop().create_future() for _ in range(9)]
        tracemalloc.start()
        try:
            for end in ends:
                inference.submit(Inference(Wanted(ServedModel("m")), (("x", right),)), end.set_result)
            await asyncio.to_thread(model.gate.wait_held, 1)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most < 1.5 * 16_384 * 16
        await tensors.put(right, Tensor(F32, (16_384, 4), bytes(16_384 * 16)))
        model.gate.open()
        for end in ends:
            assert bytes((await end).result()[0].data) == b"abcd" * 4 * 16_384


async def test_boxes_run_together_with_what_came_with_its_call(serving: Serving, session: Session) -> None:
    model = FakeModel(echo_spec("m"), gate=Gate(), optimal_slots=1)
    async with serving(model, properties=("INFERWIRE_MAX_BATCH=8",)) as server:
        inference, tensors = server.services.inference, server.services.tensors
        model.gate.close()
        kept = StoredTensor(session, 1)
        tensors.create(kept, F32, (2, 8))
        await tensors.put(kept, Tensor(F32, (2, 8), np.arange(16, dtype=np.float32).tobytes()))
        given = TENSOR, replace(kept, box=Box((0, 4), (2, 8))), replace(kept, box=Box((1, 0), (2, 4)))
        calls = [Inference(Wanted(ServedModel("m")), (("x", each),)) for each in (TENSOR, *given)]
        jobs = [asyncio.ensure_future(inference.infer(each)) for each in calls]
        await asyncio.to_thread(model.gate.wait_held, 1)
        model.gate.open()
        _, *outputs = [(await job).result()[0] for job in jobs]
        assert {held_by(output) for output in outputs} == {5 * 16}
        wanted = [range(8), [4, 5, 6, 7, 12, 13, 14, 15], range(8, 12)]
        assert [np.frombuffer(output.data, np.float32).tolist() for output in outputs] == [[*each] for each in wanted]


class Reading:
    """A server whose one slot is busy, and jobs that wait for it to read tensors of a session."""

    def __init__(self, server: Composition, model: FakeModel, session: Session) -> None:
        self.model = model
        self.session = session
        self.tensors = server.services.tensors
        self.inference = server.services.inference

    def submit(self, *given: StoredTensor | Tensor) -> list[Job]:
        calls = [Inference(Wanted(ServedModel("m")), (("x", each),)) for each in given]
        return [self.inference.submit(call, lambda _: None) for call in calls]

    async def is_done(self, jobs: list[Job]) -> None:
        self.model.gate.open()
        await until(lambda: all(job.state.is_terminal for job in jobs))

    def keeps(self) -> int:
        """Say how many bytes the session keeps, of data alone."""
        with pytest.raises(ServingError, match="this session, which keeps") as caught:
            self.tensors.create(StoredTensor(self.session, 99), BY_NAME["u8"], (1 << 30,))
        return int(caught.value.message.split("keeps ")[1].split()[0]) // (MEBIBYTE // 2) * (MEBIBYTE // 2)


@pytest.fixture
async def reading(serving: Serving, session: Session) -> AsyncGenerator[Reading, None]:
    model = FakeModel(echo_spec("m"), gate=Gate(is_open=False), optimal_slots=1)
    async with serving(model, max_session_tensors_mb=4, queue_capacity=4) as server:
        rig = Reading(server, model, session)
        rig.submit(TENSOR)
        await asyncio.to_thread(model.gate.wait_held, 1)
        yield rig
        model.gate.open()


ROWS = MEBIBYTE // 16
A_MEBIBYTE = Tensor(F32, (ROWS, 4), bytes(MEBIBYTE))


async def replace_it(reading: Reading, stored: StoredTensor) -> None:
    await reading.tensors.put(stored, A_MEBIBYTE)


async def write_a_box_of_it(reading: Reading, stored: StoredTensor) -> None:
    await reading.tensors.put(replace(stored, box=Box((0, 0), (1, 4))), Tensor(F32, (1, 4), bytes(16)))


async def create_it_anew(reading: Reading, stored: StoredTensor) -> None:
    reading.tensors.create(stored, F32, (ROWS, 4))


async def release_it(reading: Reading, stored: StoredTensor) -> None:
    reading.tensors.release(stored.session, [stored.id])
    reading.tensors.create(stored, F32, (ROWS, 4))


CHANGES = [replace_it, write_a_box_of_it, create_it_anew, release_it]


@pytest.mark.parametrize("change", CHANGES)
async def test_what_jobs_read_counts_until_they_have_ended(
    reading: Reading, change: Callable[[Reading, StoredTensor], Awaitable[None]]
) -> None:
    stored = StoredTensor(reading.session, 1)
    reading.tensors.create(stored, F32, (ROWS, 4))
    jobs = reading.submit(stored, replace(stored, box=Box((1, 0), (2, 4))))
    assert reading.keeps() == MEBIBYTE
    await change(reading, stored)
    assert reading.keeps() == 2 * MEBIBYTE
    jobs += reading.submit(stored)
    await change(reading, stored)
    assert reading.keeps() == 3 * MEBIBYTE
    jobs += reading.submit(stored)
    with pytest.raises(ServingError, match="is too much for this session") as caught:
        await change(reading, stored)
    assert caught.value.code is Code.TOO_LARGE
    await reading.is_done(jobs)
    await change(reading, stored)
    assert reading.keeps() == MEBIBYTE


async def test_a_job_that_is_refused_or_cancelled_reads_nothing(reading: Reading) -> None:
    stored = StoredTensor(reading.session, 1)
    reading.tensors.create(stored, F32, (ROWS, 4))
    jobs = reading.submit(stored, stored, stored, TENSOR)
    with pytest.raises(ServingError, match="queue is full"):
        reading.submit(stored)
    for job in jobs:
        reading.inference.cancel(job, "by the test")
    await replace_it(reading, stored)
    assert reading.keeps() == MEBIBYTE


async def test_an_output_takes_the_place_of_the_input_that_its_own_job_read(reading: Reading) -> None:
    stored = StoredTensor(reading.session, 1)
    reading.tensors.create(stored, F32, (3 * ROWS, 4))
    wanted = Wanted(ServedModel("m"), keeps={0: stored})
    reading.model.gate.open()
    job = await reading.inference.infer(Inference(wanted, (("x", stored),)))
    assert job.result()[0].stored_as == 1
    assert reading.keeps() == 3 * MEBIBYTE


async def test_what_jobs_of_an_ended_session_read_counts_among_what_all_keep(serving: Serving) -> None:
    mine, other = Session("mine", ""), Session("other", "")
    model = FakeModel(echo_spec("m"), gate=Gate(is_open=False), optimal_slots=1)
    async with serving(model, max_tensors_mb=2) as server:
        rig, one = Reading(server, model, mine), StoredTensor(mine, 1)
        rig.tensors.create(one, F32, (ROWS, 4))
        jobs = rig.submit(one)
        rig.tensors.end(mine)
        others = StoredTensor(other, 1)
        with pytest.raises(ServingError, match="is too much for this server"):
            rig.tensors.create(others, F32, (ROWS, 4))
        await rig.is_done(jobs)
        rig.tensors.create(others, F32, (ROWS, 4))


def held_by(tensor: Tensor) -> int:
    """Say how many bytes it keeps in memory."""
    return memoryview(memoryview(tensor.data).obj).nbytes


async def test_an_output_of_a_batch_is_kept_without_those_of_others(serving: Serving, session: Session) -> None:
    model = FakeModel(echo_spec("m"), gate=Gate(), optimal_slots=1)
    async with serving(model, properties=("INFERWIRE_MAX_BATCH=8",)) as server:
        model.gate.close()
        inference, tensors = server.services.inference, server.services.tensors
        alone, inputs = Wanted(ServedModel("m")), (("x", TENSOR),)
        first = asyncio.ensure_future(inference.infer(Inference(alone, inputs)))
        await asyncio.to_thread(model.gate.wait_held, 1)
        kept = StoredTensor(session, 7)
        both = alone._replace(keeps={0: kept}), alone
        batch = [asyncio.ensure_future(inference.infer(Inference(wanted, inputs))) for wanted in both]
        await asyncio.to_thread(int)
        model.gate.open()
        _, keeping, other = await asyncio.gather(first, *batch)
        assert held_by(other.result()[0]) == 2 * TENSOR.byte_size
        assert keeping.result()[0].stored_as == 7
        assert held_by(tensors.get(kept)) == TENSOR.byte_size
