"""A session's stream, by either way that carries it: all is answered, whatever becomes of each execution."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import pytest_asyncio
from tests.certificates import Authority
from tests.transport.session.carriers import Ended, GrpcStream, SocketStream, Stream
from tests.waiting import a_turn, until

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.brief_slot import TRIALS
from inferwire_server.engine.fake_backend import FakeModel, Gate, echo_spec
from inferwire_server.service import Services
from inferwire_server.service.inference import Prepared
from inferwire_server.service.values import Inference
from inferwire_server.settings import Settings
from inferwire_server.transport.rpc.grpc_server import GrpcOptions, GrpcServer
from inferwire_server.transport.session.socket_sessions import SocketSessions
from inferwire_server.transport.tls import Tls

Models = dict[str, FakeModel]


CAPACITY = 256


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, queue_capacity=CAPACITY)


@pytest.fixture
def models() -> Models:
    words = ModelSpec(
        "words",
        (PortSpec(frozenset({"x"}), "x", BY_NAME["string"], (Dimension(2, 2),), "x", "Parameter"),),
        (PortSpec(frozenset({"y"}), "y", BY_NAME["string"], (Dimension(2, 2),), "y", "Result"),),
    )
    slow = FakeModel(echo_spec("slow"), gate=Gate(is_open=False), optimal_slots=1)
    return {
        "echo": FakeModel(echo_spec("echo")),
        "brief": FakeModel(echo_spec("brief"), is_brief=True),
        "slow": slow,
        "words": FakeModel(words),
    }


Connect = Callable[[], Awaitable[Stream]]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def grpc_options(short_folder: Path) -> GrpcOptions:
    return GrpcOptions(port=0, socket=short_folder / "grpc")


@pytest_asyncio.fixture
async def tls_port(services: Services, sockets: SocketSessions, authority: Authority) -> AsyncIterator[int]:
    """A port with TLS."""
    issued = authority.issue()
    options = GrpcOptions(port=0, tls=Tls(issued.certificate, issued.key))
    async with GrpcServer(services, options, sockets) as server:
        yield server.port


@pytest.fixture(params=["grpc", "socket", "Unix socket", "socket with TLS"])
def connect(
    request: pytest.FixtureRequest,
    channel: grpc.aio.Channel,
    grpc_server: GrpcServer,
    grpc_options: GrpcOptions,
    tls_port: int,
    authority: Authority,
    services: Services,
) -> Iterator[Connect]:
    """Begin another stream, by each way that carries one."""
    begun: list[Stream] = []

    async def begin() -> Stream:
        if request.param == "grpc":
            begun.append(GrpcStream(channel))
        elif request.param == "Unix socket":
            assert grpc_options.socket is not None
            begun.append(await SocketStream.connect_to_file(grpc_options.socket, services.health.identity.epoch))
        elif request.param == "socket with TLS":
            epoch = services.health.identity.epoch
            begun.append(await SocketStream.connect(tls_port, epoch, tls=authority.trusting))
        else:
            begun.append(await SocketStream.connect(grpc_server.port, services.health.identity.epoch))
        return begun[-1]

    yield begin
    for stream in begun:
        stream.leave()


@pytest_asyncio.fixture
async def stream(connect: Connect) -> Stream:
    opened = await connect()
    await opened.open()
    return opened


def execution(*ids: int, model: str = "echo", shape: Sequence[int] = (1, 4), **target: Any) -> pb.Execution:
    header = types_pb2.TensorHeader(name="x", element_type=types_pb2.ELEMENT_TYPE_F32, shape=shape)
    return pb.Execution(ids=ids, target=pb.Target(served=model, **target), inputs=[header])


def row(value: float) -> bytes:
    return np.full((1, 4), value, np.float32).tobytes()


async def test_the_welcome_says_who_the_server_is(connect: Connect, services: Services) -> None:
    welcome = await (await connect()).open()
    assert welcome.session_id
    assert welcome.server_epoch == services.health.identity.epoch
    assert welcome.max_message_bytes == 256 << 20
    assert welcome.server.startswith("inferwire ")
    assert welcome.takes_sockets


async def test_executions_of_one_message_are_each_answered(stream: Stream) -> None:
    ids = range(1, 17)
    await stream.send(pb.SessionRequest(executions=[execution(i) for i in ids]), [row(i) for i in ids])
    results = await stream.results(16)
    assert {i: raw for i, (_, raw) in results.items()} == {i: [row(i)] for i in ids}
    first, _ = results[1]
    assert list(first.outputs) == [types_pb2.TensorHeader(element_type=types_pb2.ELEMENT_TYPE_F32, shape=[1, 4])]
    assert first.timings.total_us >= first.timings.inference_us > 0


async def test_brief_executions_are_answered_alone_and_together_and_free_their_ids(stream: Stream) -> None:
    for value in range(2 * TRIALS):
        await stream.send(pb.SessionRequest(executions=[execution(1, model="brief")]), [row(value)])
        assert (await stream.results(1))[1][1] == [row(value)]
    both = pb.SessionRequest(executions=[execution(1, model="brief"), execution(2, 3, model="brief")])
    await stream.send(both, [row(1), row(2) + row(3)])
    assert {i: raw for i, (_, raw) in (await stream.results(3)).items()} == {i: [row(i)] for i in (1, 2, 3)}


async def test_a_stack_is_answered_one_by_one(stream: Stream) -> None:
    await stream.send(pb.SessionRequest(executions=[execution(1, 2, 3)]), [row(1) + row(2) + row(3)])
    results = await stream.results(3)
    assert [results[i][1] for i in (1, 2, 3)] == [[row(1)], [row(2)], [row(3)]]


async def test_stacks_of_a_model_that_runs_no_rows_together_are_answered_all_the_same(
    stream: Stream, models: Models
) -> None:
    shapes: list[tuple[int, ...]] = []
    compute = models["echo"].compute

    def count_rows(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        shapes.append(inputs[0].shape)
        return compute(inputs)

    models["echo"].compute = count_rows
    for first in range(1, 50, 4):
        ids = range(first, first + 4)
        await stream.send(pb.SessionRequest(executions=[execution(*ids)]), [b"".join(row(i) for i in ids)])
        found = await stream.results(4)
        assert {i: raw for i, (_, raw) in found.items()} == {i: [row(i)] for i in ids}
    assert shapes == [(1, 4)] * 52


async def test_a_stack_of_strings_is_cut_where_the_strings_end(stream: Stream) -> None:
    stacked = execution(1, 2, model="words", shape=[2])
    stacked.inputs[0].element_type = types_pb2.ELEMENT_TYPE_STRING
    first, second = strings.pack([b"a", b""]), strings.pack([b"bcd", b"e"])
    await stream.send(pb.SessionRequest(executions=[stacked]), [first + second])
    results = await stream.results(2)
    assert (results[1][1], results[2][1]) == ([first], [second])


BAD = [
    (execution(5, model="nope"), row(0), "MODEL_NOT_FOUND", "Request for unknown model: 'nope' is not found"),
    (execution(5, shape=(1, 5)), row(0), "INVALID_INPUT", "has shape [1,5], expected [?,4]"),
    (execution(5), row(0)[:-1], "INVALID_INPUT", "has 15 bytes, expected 16 for f32[1,4]"),
    (
        execution(5, signature=1),
        row(0),
        "INVALID_INPUT",
        "reloaded with other inputs or outputs: get it again (served_model, GetModel)",
    ),
    (execution(5, version="9"), row(0), "MODEL_NOT_FOUND", "'echo' version 9 is not found"),
    (pb.Execution(ids=[5], inputs=execution(5).inputs), row(0), "INVALID_INPUT", "names no model"),
]


@pytest.mark.parametrize(("bad", "raw", "code", "sentence"), BAD, ids=[case[2] + str(i) for i, case in enumerate(BAD)])
async def test_what_does_not_fit_is_a_result_between_good_ones(
    stream: Stream, load: Callable[[], Any], bad: pb.Execution, raw: bytes, code: str, sentence: str
) -> None:
    before = await load()
    await stream.send(pb.SessionRequest(executions=[execution(1), bad, execution(2)]), [row(1), raw, row(2)])
    results = await stream.results(3)
    assert (results[1][1], results[2][1]) == ([row(1)], [row(2)])
    error = results[5][0].error
    assert types_pb2.ErrorCode.Name(error.code) == f"ERROR_CODE_{code}"
    assert sentence in error.message
    assert await load() == before


async def test_a_bad_stack_is_refused_id_by_id(stream: Stream) -> None:
    await stream.send(pb.SessionRequest(executions=[execution(1, 2), execution(3)]), [row(1), row(3)])
    results = await stream.results(3)
    assert results[3][1] == [row(3)]
    assert {results[1][0].error.message, results[2][0].error.message} == {
        "2 tensors f32[1,4] have 16 bytes, expected 32"
    }


async def test_an_unknown_element_type_is_named(stream: Stream) -> None:
    strange = execution(1)
    strange.inputs[0].element_type = types_pb2.ElementType.ValueType(77)
    await stream.send(pb.SessionRequest(executions=[strange]), [row(1)])
    assert (await stream.results(1))[1][0].error.message == "input 'x' has element type 77, expected 1 to 25"


async def test_a_cancel_ends_a_running_execution(stream: Stream, models: Models, load: Callable[[], Any]) -> None:
    await stream.send(pb.SessionRequest(executions=[execution(1, model="slow"), execution(2)]), [row(1), row(2)])
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    assert list(await stream.results(1)) == [2]
    await stream.send(pb.SessionRequest(cancels=[1, 99]))
    result, _ = (await stream.results(1))[1]
    assert result.error.code == types_pb2.ERROR_CODE_CANCELLED
    await asyncio.to_thread(models["slow"].gate.wait_held, 0)
    models["slow"].gate.open()
    await stream.send(pb.SessionRequest(executions=[execution(3, model="slow")]), [row(3)])
    assert (await stream.results(1))[3][1] == [row(3)]
    assert (await load()).running == 0


async def test_a_deadline_ends_a_running_execution(stream: Stream) -> None:
    hurried = execution(1, model="slow")
    hurried.scheduling.timeout_us = 1000
    await stream.send(pb.SessionRequest(executions=[hurried]), [row(1)])
    assert (await stream.results(1))[1][0].error.code == types_pb2.ERROR_CODE_DEADLINE_EXCEEDED


async def test_a_client_that_goes_leaves_nothing_running(
    connect: Connect, models: Models, load: Callable[[], Any]
) -> None:
    gone = await connect()
    await gone.open()
    await gone.send(
        pb.SessionRequest(executions=[execution(1, model="slow"), execution(2, model="slow")]), [row(1), row(2)]
    )
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    gone.leave()
    await asyncio.to_thread(models["slow"].gate.wait_held, 0)
    models["slow"].gate.open()
    stream = await connect()
    await stream.open()
    await stream.send(pb.SessionRequest(executions=[execution(3, model="slow")]), [row(3)])
    assert (await stream.results(1))[3][1] == [row(3)]
    after = await load()
    assert (after.running, after.queued) == (0, 0)


async def test_a_client_that_has_said_all_still_gets_its_results(stream: Stream, models: Models) -> None:
    await stream.send(pb.SessionRequest(executions=[execution(1, model="slow")]), [row(1)])
    await stream.say_all()
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    models["slow"].gate.open()
    assert (await stream.results(1))[1][1] == [row(1)]
    assert await stream.ended() is None


async def test_a_stack_that_is_refused_is_told_so_once(stream: Stream, services: Services) -> None:
    name = "x" * 1_000_000
    request = pb.SessionRequest(executions=[execution(*range(1, 601), model=name)])
    await stream.send(request, [bytes(16 * 600)])
    message = await stream.message()
    (refused,) = pb.SessionResponse.FromString(message).results
    assert list(refused.ids) == list(range(1, 601))
    assert refused.error.code == Code.MODEL_NOT_FOUND.wire
    assert len(message) < 10_000
    assert services.refusals.counts == {("session", "MODEL_NOT_FOUND"): 600}


async def test_a_stack_for_which_the_queue_has_no_room_is_told_so_once(stream: Stream, models: Models) -> None:
    full = 1 + CAPACITY
    filling = [execution(i, model="slow") for i in range(full)]
    stack = execution(*range(full, full + 100), model="slow")
    await stream.send(pb.SessionRequest(executions=[*filling, stack]), [*[row(0)] * full, row(0) * 100])
    (refused,) = pb.SessionResponse.FromString(await stream.message()).results
    assert refused.error.code == types_pb2.ERROR_CODE_QUEUE_FULL
    assert list(refused.ids) == list(range(full, full + 100))
    models["slow"].gate.open()
    assert len(await stream.results(full)) == full


async def test_a_stack_of_a_shape_that_is_none_is_refused_alone(stream: Stream) -> None:
    bad = execution(8, 9, shape=[2**63 - 1] * 300)
    await stream.send(pb.SessionRequest(executions=[execution(7), bad]), [row(7), b"x"])
    results = await stream.results(3)
    assert results[7][1] == [row(7)]
    for execution_id in (8, 9):
        error = results[execution_id][0].error
        assert error.code == Code.INVALID_INPUT.wire
        assert error.message == "each of 2 tensors has 300 dimensions, expected at most 64"


MALFORMED = [
    (b"\xff\xff", "are not a message of type inferwire.v1.SessionRequest"),
    (pb.SessionRequest(hello=pb.SessionHello()).SerializeToString(), "second hello"),
    (pb.SessionRequest(executions=[execution(1)]).SerializeToString(), "executions have 1 or more"),
    (pb.SessionRequest(raw=[b""]).SerializeToString(), "bytes of 1 inputs, but its executions have 0"),
    (pb.SessionRequest(executions=[execution()], raw=[b""]).SerializeToString(), "has no id"),
    (pb.SessionRequest(executions=[execution(1, 1)], raw=[b""]).SerializeToString(), "id 1 of an execution is in use"),
    (
        pb.SessionRequest(executions=[execution(*range(65537))], raw=[b""]).SerializeToString(),
        "65537 executions or more, those in stacks counted, expected at most 65536",
    ),
    (
        pb.SessionRequest(executions=[execution(1), execution(*range(65536))], raw=[b"", b""]).SerializeToString(),
        "65537 executions or more, those in stacks counted, expected at most 65536",
    ),
    (
        pb.SessionRequest(executions=[pb.Execution(ids=[1])] * 65537).SerializeToString(),
        "65537 executions and 0 cancels, expected at most 65536 and 1048576",
    ),
    (
        pb.SessionRequest(cancels=range(2**20 + 1)).SerializeToString(),
        "0 executions and 1048577 cancels, expected at most 65536 and 1048576",
    ),
    (pb.SessionRequest(executions=[execution(*[8] * 99)], raw=[b""]).SerializeToString(), "id 8 of an execution is in"),
    (
        pb.SessionRequest(
            executions=[pb.Execution(ids=[1], inputs=[types_pb2.TensorHeader()] * 4097)]
        ).SerializeToString(),
        "there are 4097 inputs, expected at most 4096",
    ),
    (
        pb.SessionRequest(
            executions=[pb.Execution(ids=[1], target=pb.Target(served="m" * (8 << 20)))]
        ).SerializeToString(),
        "beside their tensors, expected at most 8388608",
    ),
]


@pytest.mark.parametrize(
    ("data", "sentence"), MALFORMED, ids=[case[1].split()[0] + str(len(case[0])) for case in MALFORMED]
)
async def test_what_cannot_be_read_ends_the_stream(
    stream: Stream, models: Models, load: Callable[[], Any], data: bytes, sentence: str
) -> None:
    await stream.send(pb.SessionRequest(executions=[execution(7, model="slow")]), [row(1)])
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    await stream.send_bytes(data)
    ended = await stream.ended()
    assert ended is not None
    assert ended.code == "INVALID_INPUT"
    assert sentence in ended.sentence
    await asyncio.to_thread(models["slow"].gate.wait_held, 0)


async def test_a_stream_begins_with_a_hello(connect: Connect) -> None:
    stream = await connect()
    await stream.send(pb.SessionRequest(executions=[execution(1)]), [row(1)])
    assert await stream.ended() == Ended("INVALID_INPUT", "the stream's first message has no hello")


async def test_a_hello_is_for_the_server_that_it_names(connect: Connect) -> None:
    stream = await connect()
    hello = stream.hello()
    hello.server_epoch = "another"
    await stream.send(pb.SessionRequest(hello=hello))
    ended = await stream.ended()
    assert ended is not None
    assert ended.code == "SESSION_EXPIRED"
    assert ended.sentence.startswith("the hello is for the server of epoch 'another', but another one answers here")


async def test_a_hello_may_bring_executions(connect: Connect) -> None:
    stream = await connect()
    await stream.send(pb.SessionRequest(hello=stream.hello(), executions=[execution(1)]), [row(1)])
    assert pb.SessionResponse.FromString(await stream.message()).HasField("welcome")
    assert (await stream.results(1))[1][1] == [row(1)]


async def test_a_hello_with_what_cannot_be_read_holds_no_session(connect: Connect, services: Services) -> None:
    stream = await connect()
    await stream.send(pb.SessionRequest(hello=stream.hello()), [row(1)])
    ended = await stream.ended()
    assert ended is not None
    assert ended.code == "INVALID_INPUT"
    await until(lambda: repr(services.sessions) == "<SessionService: 0 sessions>")


async def test_a_session_is_resumed_while_a_stream_holds_it(connect: Connect) -> None:
    first, second = await connect(), await connect()
    welcome = await first.open()
    assert (await second.open(welcome.session_id)).session_id == welcome.session_id


async def test_a_session_that_is_gone_cannot_be_resumed(connect: Connect) -> None:
    stream = await connect()
    await stream.send(pb.SessionRequest(hello=stream.hello("gone")))
    ended = await stream.ended()
    assert ended is not None
    assert ended.code == "SESSION_EXPIRED"
    assert "'gone'" in ended.sentence


async def test_a_full_queue_is_a_result(stream: Stream, models: Models) -> None:
    number = 1 + CAPACITY + 3
    ids = range(1, number + 1)
    await stream.send(pb.SessionRequest(executions=[execution(i, model="slow") for i in ids]), [row(i) for i in ids])
    refused = await stream.results(3)
    assert {result.error.code for result, _ in refused.values()} == {types_pb2.ERROR_CODE_QUEUE_FULL}
    assert {result.error.retry_after_s for result, _ in refused.values()} == {1.0}
    models["slow"].gate.open()
    assert len(await stream.results(number - 3)) == number - 3


async def test_a_drain_answers_what_runs_and_then_ends_the_stream(
    stream: Stream, grpc_server: GrpcServer, services: Services, models: Models
) -> None:
    await stream.send(pb.SessionRequest(executions=[execution(1, model="slow")]), [row(1)])
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    drain = asyncio.gather(services.inference.drain(10), grpc_server.drain(10))
    await asyncio.sleep(0)  # it has begun when the next message is sent
    await stream.send(pb.SessionRequest(executions=[execution(2)]), [row(2)])
    refused, _ = (await stream.results(1))[2]
    assert refused.error.code == types_pb2.ERROR_CODE_SHUTTING_DOWN
    models["slow"].gate.open()
    assert (await stream.results(1))[1][1] == [row(1)]
    assert await stream.ended() == Ended("SHUTTING_DOWN", "the server is shutting down")
    assert await drain == [0, 0]


class Watch:
    """Notes, in each turn of the loop, how many executions have been refused and how many wait or run."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._loop = asyncio.get_running_loop()
        self._last = self._taken
        self.steps: list[int] = []
        self._look()

    @property
    def _taken(self) -> int:
        return sum(self._services.refusals.counts.values()) + len(self._services.inference._in_flight)

    def _look(self) -> None:
        taken, self._last = self._taken - self._last, self._taken
        if taken:
            self.steps.append(taken)
        self._handle = self._loop.call_soon(self._look)

    def end(self) -> list[int]:
        """Give how many were taken in, or ended, in each turn in which some were."""
        self._handle.cancel()
        return self.steps


A_TURN = 5 * 64
"""How many executions all sessions may take in one turn: those that have just come, and four times those that wait."""


async def test_others_have_their_turn_while_a_message_of_thousands_is_taken_in(
    stream: Stream, services: Services
) -> None:
    watch, ids = Watch(services), [*range(1, 2001)]
    await stream.send(pb.SessionRequest(executions=[execution(i, model="nobody") for i in ids]), [row(1)] * 2000)
    assert list(await stream.results(2000)) == ids
    steps = watch.end()
    assert sum(steps) == 2000
    assert max(steps) <= A_TURN


async def test_others_have_their_turn_while_a_stack_of_thousands_is_taken_in(
    stream: Stream, services: Services
) -> None:
    """One of strings, which is many executions wherever its rows are not run together."""
    stack = execution(*range(1, 2001), model="words", shape=(2,))
    stack.inputs[0].element_type = types_pb2.ELEMENT_TYPE_STRING
    watch = Watch(services)
    await stream.send(pb.SessionRequest(executions=[stack]), [strings.pack([b"a", b"b"] * 2000)])
    assert sorted(await stream.results(2000)) == [*range(1, 2001)]
    assert max(map(abs, watch.end())) <= A_TURN


async def test_a_stack_of_very_many_is_divided_piece_by_piece(
    stream: Stream, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, divided = services.inference.prepare_stack, list[int]()

    def counting(stack: Inference, *rest: Any) -> list[Prepared]:
        divided.append(stack.executions)
        return prepare(stack, *rest)

    monkeypatch.setattr(services.inference, "prepare_stack", counting)
    ids, rows = range(1, 5001), np.arange(20_000, dtype=np.float32).reshape(5000, 4)
    await stream.send(pb.SessionRequest(executions=[execution(*ids)]), [rows.tobytes()])
    results = await stream.results(5000)
    assert (sum(divided), max(divided)) == (5000, 1024)
    answered = {i: raw for i, (result, raw) in results.items() if not result.HasField("error")}
    assert len(answered) >= CAPACITY
    assert answered == {i: [rows[i - 1].tobytes()] for i in answered}


async def test_a_hello_may_bring_thousands_of_executions(connect: Connect, services: Services) -> None:
    watch, stream = Watch(services), await connect()
    await stream.send(
        pb.SessionRequest(hello=stream.hello(), executions=[pb.Execution(ids=[i]) for i in range(1, 2001)])
    )
    assert pb.SessionResponse.FromString(await stream.message()).HasField("welcome")
    assert sorted(await stream.results(2000)) == [*range(1, 2001)]
    assert max(watch.end()) <= A_TURN


async def test_what_is_cancelled_and_what_follows_wait_for_the_rest_of_a_message(
    stream: Stream, services: Services
) -> None:
    first, then = range(1, CAPACITY + 2), range(1000, 1100)
    await stream.send(
        pb.SessionRequest(executions=[execution(i, model="slow") for i in first], cancels=first), [row(1)] * len(first)
    )
    await stream.send(pb.SessionRequest(executions=[execution(i) for i in then]), [row(1)] * len(then))
    results = await stream.results(len(first) + len(then))
    assert [results[i][0].error.code for i in first] == [types_pb2.ERROR_CODE_CANCELLED] * len(first)
    assert [results[i][0].error.code for i in then] == [0] * len(then)


async def test_others_have_their_turn_while_very_many_are_cancelled(stream: Stream, services: Services) -> None:
    ids, turns = range(1, CAPACITY + 2), count()

    def turn() -> None:
        nonlocal handle
        next(turns)
        handle = asyncio.get_running_loop().call_soon(turn)

    await stream.send(pb.SessionRequest(executions=[execution(i, model="slow") for i in ids]), [row(1)] * len(ids))
    await until(lambda: len(services.inference._in_flight) == len(ids))
    watch = Watch(services)
    handle = asyncio.get_running_loop().call_soon(turn)
    await stream.send(pb.SessionRequest(cancels=[*range(10_000, 110_000), *ids]))
    cancelled = await stream.results(len(ids))
    handle.cancel()
    assert len(cancelled) == len(ids)
    assert min(watch.end()) >= -A_TURN
    assert next(turns) > 100_000 / 64 / A_TURN


async def test_a_drain_waits_for_the_rest_of_a_message(
    stream: Stream, grpc_server: GrpcServer, services: Services
) -> None:
    ids = range(1, 2001)
    await stream.send(pb.SessionRequest(executions=[execution(i, model="nobody") for i in ids]), [row(1)] * 2000)
    while not services.refusals.counts:
        await a_turn()
    assert sum(services.refusals.counts.values()) < 2000
    drain = asyncio.gather(services.inference.drain(10), grpc_server.drain(10))
    results = await stream.results(2000)
    assert {results[i][0].error.code for i in ids} == {
        types_pb2.ERROR_CODE_MODEL_NOT_FOUND,
        types_pb2.ERROR_CODE_SHUTTING_DOWN,
    }
    assert await stream.ended() == Ended("SHUTTING_DOWN", "the server is shutting down")
    assert await drain == [0, 0]


async def test_a_client_that_goes_in_the_middle_of_a_message_leaves_nothing(
    stream: Stream, services: Services, sockets: SocketSessions
) -> None:
    await stream.send(
        pb.SessionRequest(executions=[execution(i, model="slow") for i in range(1, 3001)]), [row(1)] * 3000
    )
    while not services.inference._in_flight:
        await a_turn()
    stream.leave()
    await until(lambda: not sockets.drain.is_busy)
    assert not services.inference._in_flight
    assert repr(sockets.turns) == "<Turns: 0 connections wait>"


async def test_many_messages_in_flight_are_answered_once_each(stream: Stream) -> None:
    ids = count(1)
    for _ in range(20):
        batch = [next(ids) for _ in range(5)]
        await stream.send(pb.SessionRequest(executions=[execution(i) for i in batch]), [row(i) for i in batch])
    results = await stream.results(100)
    assert {i: raw for i, (_, raw) in results.items()} == {i: [row(i)] for i in range(1, 101)}
