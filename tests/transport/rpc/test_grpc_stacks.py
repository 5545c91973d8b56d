"""Stacks on the session's stream: one inference for all, and yet each execution as if it had come alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pytest
import pytest_asyncio

from inferwire_proto import raw_fields, strings
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import models_pb2, types_pb2
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.core.tensor_checks import MOST_STRINGS
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.errors import invalid_input
from inferwire_server.server import Composition
from inferwire_server.settings import Settings

Models = dict[str, FakeModel]

MOST_ROWS = 8
POISON = -1.0
"""A value that no run gets through with."""


@pytest.fixture
def runs() -> list[int]:
    """How many rows each inference had."""
    return []


@pytest.fixture
def models(runs: list[int]) -> Models:
    def compute(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        values = np.frombuffer(inputs[0].data, np.float32)
        if POISON in values:
            raise invalid_input("poisoned")
        runs.append(inputs[0].shape[0])
        return (inputs[0]._replace(data=(values * 2).tobytes()),)

    anything = (Dimension(0, None),) * 2
    ports = [PortSpec(frozenset({name}), name, BY_NAME["string"], anything, name, "") for name in ("x", "y")]
    words = FakeModel(ModelSpec("words", (ports[0],), (ports[1],)), optimal_slots=1)
    return {"double": FakeModel(echo_spec("double"), compute, optimal_slots=1), "words": words}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, properties=(f"INFERWIRE_MAX_BATCH={MOST_ROWS}",), queue_capacity=20)


@pytest.fixture
def double(composition: Composition, models: Models, runs: list[int]) -> FakeModel:
    """The model, loaded."""
    del composition
    runs.clear()
    return models["double"]


class Stream:
    """A client's end of a stream."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.call: Any = channel.stream_stream("/inferwire.v1.InferenceService/Session")()
        self.messages: list[list[int]] = []

    async def open(self) -> None:
        """Say hello."""
        await self.call.write(pb.SessionRequest(hello=pb.SessionHello(client="test")).SerializeToString())
        await self.call.read()

    async def send(self, *executions: pb.Execution, raw: Sequence[bytes] = (), cancels: Sequence[int] = ()) -> None:
        """Send one message."""
        message = pb.SessionRequest(executions=executions, cancels=cancels).SerializeToString()
        await self.call.write(raw_fields.join(message, raw))

    async def results(self, number: int) -> dict[int, list[float] | str]:
        """Read so many executions' values or errors, by id; `messages` says which came together."""
        found: dict[int, list[float] | str] = {}
        while len(found) < number:
            data = await self.call.read()
            assert data is not grpc.aio.EOF, await self.call.details()
            message = pb.SessionResponse.FromString(data)
            raw = iter(message.raw)
            for result in message.results:
                self.messages.append(list(result.ids))
                if result.HasField("error"):
                    found |= dict.fromkeys(result.ids, f"{result.error.code}: {result.error.message}")
                    continue
                (header,) = result.outputs
                values = np.frombuffer(next(raw), np.float32).reshape(len(result.ids), *header.shape)
                found |= {i: each[:, 0].tolist() for i, each in zip(result.ids, values, strict=True)}
        return found


@pytest_asyncio.fixture
async def stream(channel: grpc.aio.Channel, double: FakeModel) -> AsyncIterator[Stream]:
    opened = Stream(channel)
    await opened.open()
    yield opened
    double.gate.open()
    opened.call.cancel()


def a_stack(*ids: int, rows: int = 1, width: int = 4) -> pb.Execution:
    header = types_pb2.TensorHeader(name="x", element_type=types_pb2.ELEMENT_TYPE_F32, shape=(rows, width))
    return pb.Execution(ids=ids, target=pb.Target(served="double"), inputs=[header])


def rows_of(*values: float) -> bytes:
    return np.repeat(np.array(values, np.float32), 4).tobytes()


async def test_the_model_says_how_many_rows_a_stack_may_have(channel: grpc.aio.Channel, double: FakeModel) -> None:
    del double
    call: Any = channel.unary_unary("/inferwire.v1.ModelService/GetModel")
    answer = await call(models_pb2.GetModelRequest(name="double").SerializeToString())
    assert models_pb2.GetModelResponse.FromString(answer).model.max_batch_rows == MOST_ROWS


async def test_a_stack_is_one_inference_and_one_result(stream: Stream, runs: list[int]) -> None:
    await stream.send(a_stack(7, 3, 5, rows=2), raw=[rows_of(1, 2, 3, 4, 5, 6)])
    assert await stream.results(3) == {7: [2, 4], 3: [6, 8], 5: [10, 12]}
    assert (runs, stream.messages) == ([6], [[7, 3, 5]])


async def test_a_stack_of_more_rows_than_run_together_is_taken_apart(stream: Stream, runs: list[int]) -> None:
    ids = range(1, MOST_ROWS + 2)
    await stream.send(a_stack(*ids), raw=[rows_of(*ids)])
    assert await stream.results(len(ids)) == {i: [2 * i] for i in ids}
    assert runs == [MOST_ROWS, 1]


async def test_one_bad_execution_of_a_stack_fails_alone(stream: Stream) -> None:
    await stream.send(a_stack(1, 2, 3), raw=[rows_of(1, POISON, 3)])
    found = await stream.results(3)
    assert (found[1], found[3]) == ([2], [6])
    assert found[2] == f"{types_pb2.ERROR_CODE_INVALID_INPUT}: poisoned"


async def test_what_does_not_fit_is_said_of_each_execution_as_if_it_were_alone(stream: Stream) -> None:
    await stream.send(a_stack(1, 2, width=5), raw=[bytes(40)])
    found = await stream.results(2)
    sentence = "input 'x' of model 'double' has shape [1,5], expected [?,4]"
    assert set(found.values()) == {f"{types_pb2.ERROR_CODE_INVALID_INPUT}: {sentence}"}


def words_for(*ids: int, rows: int) -> pb.Execution:
    shape = (rows, MOST_STRINGS // 4)
    header = types_pb2.TensorHeader(name="x", element_type=types_pb2.ELEMENT_TYPE_STRING, shape=shape)
    return pb.Execution(ids=ids, target=pb.Target(served="words"), inputs=[header])


async def test_a_string_too_many_of_a_large_stack_is_nobody_elses(stream: Stream) -> None:
    a_row, own = [strings.pack([word] * (MOST_STRINGS // 4)) for word in (b"a", b"own")]
    # While the first runs, the others wait and could run together.
    executions = words_for(9, rows=1), words_for(1, 2, 3, rows=2), words_for(4, rows=1)
    await stream.send(*executions, raw=[a_row, a_row * 6 + strings.pack([b"surplus"]), own])
    found: dict[int, bytes | str] = {}
    while len(found) < 5:
        message = pb.SessionResponse.FromString(await stream.call.read())
        raw = iter(message.raw)
        for result in message.results:
            (execution_id,) = result.ids
            found[execution_id] = result.error.message if result.HasField("error") else next(raw)
    sentence = (
        "input 'x' of model 'words' is no string[2,2048]: 11 bytes follow the last of 4096 strings, expected none"
    )
    assert found == {9: a_row, 1: a_row * 2, 2: a_row * 2, 3: sentence, 4: own}


async def test_a_cancelled_execution_of_a_stack_is_answered_at_once_and_the_others_go_on(
    stream: Stream, double: FakeModel, runs: list[int]
) -> None:
    double.gate.close()
    await stream.send(a_stack(1, 2, 3), raw=[rows_of(1, 2, 3)])
    await asyncio.to_thread(double.gate.wait_held, 1)
    await stream.send(cancels=[2, 2])
    cancelled = f"{types_pb2.ERROR_CODE_CANCELLED}: the client cancelled the execution"
    assert await stream.results(1) == {2: cancelled}
    # Its id is free again, whatever becomes of the stack it was in.
    await stream.send(a_stack(2), raw=[rows_of(9)])
    double.gate.open()
    assert await stream.results(3) == {1: [2], 3: [6], 2: [18]}
    assert runs == [3, 1]


async def test_a_stack_whose_executions_are_all_cancelled_is_stopped(
    stream: Stream, double: FakeModel, load: Callable[[], Any]
) -> None:
    double.gate.close()
    await stream.send(a_stack(1, 2), raw=[rows_of(1, 2)])
    await asyncio.to_thread(double.gate.wait_held, 1)
    await stream.send(cancels=[1, 2])
    assert set(await stream.results(2)) == {1, 2}
    await asyncio.to_thread(double.gate.wait_held, 0)
    double.gate.open()
    await stream.send(a_stack(3), raw=[rows_of(3)])
    assert await stream.results(1) == {3: [6]}
    assert (await load()).running == 0


async def test_a_deadline_is_that_of_every_execution_of_a_stack(stream: Stream, double: FakeModel) -> None:
    double.gate.close()
    hurried = a_stack(1, 2)
    hurried.scheduling.timeout_us = 1000
    await stream.send(hurried, raw=[rows_of(1, 2)])
    sentence = "the time limit of 0.001 s passed while the job was running on CPU"
    late = f"{types_pb2.ERROR_CODE_DEADLINE_EXCEEDED}: {sentence}"
    assert await stream.results(2) == {1: late, 2: late}


async def test_a_stack_that_the_queue_has_no_room_for_is_admitted_as_far_as_it_goes(
    stream: Stream, double: FakeModel, load: Callable[[], Any]
) -> None:
    double.gate.close()
    await stream.send(a_stack(1), raw=[rows_of(1)])
    await asyncio.to_thread(double.gate.wait_held, 1)
    stacks = [range(first, first + 7) for first in (11, 21, 31)]
    await stream.send(*(a_stack(*ids) for ids in stacks), raw=[rows_of(*ids) for ids in stacks])
    assert await stream.results(1) == {
        37: f"{types_pb2.ERROR_CODE_QUEUE_FULL}: CPU's queue is full: 20 jobs are waiting, at most 20 may "
        "(--queue-capacity); try again in 1 s"
    }
    assert (await load()).queued == 20
    double.gate.open()
    ids = [1, *range(11, 18), *range(21, 28), *range(31, 37)]
    assert await stream.results(21) == {i: [2 * i] for i in ids}


async def test_a_client_that_goes_takes_its_stacks_along(
    channel: grpc.aio.Channel, double: FakeModel, load: Callable[[], Any]
) -> None:
    gone = Stream(channel)
    await gone.open()
    double.gate.close()
    await gone.send(a_stack(1, 2), a_stack(3, 4), raw=[rows_of(1, 2), rows_of(3, 4)])
    await asyncio.to_thread(double.gate.wait_held, 1)
    gone.call.cancel()
    await asyncio.to_thread(double.gate.wait_held, 0)
    double.gate.open()
    stream = Stream(channel)
    await stream.open()
    await stream.send(a_stack(5), raw=[rows_of(5)])
    assert await stream.results(1) == {5: [10]}
    after = await load()
    assert (after.running, after.queued) == (0, 0)
    stream.call.cancel()


async def test_outputs_too_large_to_travel_together_travel_one_by_one(
    stream: Stream, double: FakeModel, runs: list[int]
) -> None:
    def blow_up(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        runs.append(inputs[0].shape[0])
        wide = np.repeat(np.frombuffer(inputs[0].data, np.float32), 50_000)
        return (inputs[0]._replace(shape=(inputs[0].shape[0], 200_000), data=wide.tobytes()),)

    double.compute = blow_up
    await stream.send(a_stack(1, 2), raw=[rows_of(1, 2)])
    assert await stream.results(2) == {1: [1], 2: [2]}
    assert (runs, stream.messages) == ([2], [[1], [2]])


async def test_a_bug_is_told_to_every_execution_of_a_stack(stream: Stream, double: FakeModel) -> None:
    def fail(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        raise KeyError(inputs[0].shape)

    double.compute = fail
    await stream.send(a_stack(1, 2), raw=[rows_of(1, 2)])
    found = await stream.results(2)
    told = f"{types_pb2.ERROR_CODE_INTERNAL}: a bug in the server; its log has more under id "
    assert all(str(found[execution]).startswith(told) for execution in (1, 2))
