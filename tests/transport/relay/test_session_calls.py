"""Calls of sessions that another worker has: handed on to it, whatever messages they have and however they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from tests.transport.served_methods import served_methods
from tests.waiting import LIMIT_S

from inferwire_proto.errors import CODE_METADATA, Code
from inferwire_proto.inferwire.v1 import inference_pb2, models_pb2, states_pb2
from inferwire_server.crew import Crew
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.transport.relay.other_workers import OtherWorkers
from inferwire_server.transport.relay.session_calls import SessionRelay
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.methods import Method, RawCall, path_of
from inferwire_server.transport.rpc.status import RpcStatus


def method_of(file: Any, service: str, name: str) -> MethodDescriptor:
    return file.DESCRIPTOR.services_by_name[service].methods_by_name[name]


SESSION = method_of(inference_pb2, "InferenceService", "Session")
UPLOAD = method_of(models_pb2, "ModelService", "Upload")
EXPORT = method_of(models_pb2, "ModelService", "Export")
RESET = method_of(states_pb2, "StateService", "ResetStates")


class Caller:
    """The context of a call whose caller has a session, sends messages, and then, if it fails, something else."""

    def __init__(self, messages: Iterable[bytes] = (), session: str = "a-1", fails: Exception | None = None) -> None:
        self.metadata = (("inferwire-session", session),)
        self.answers: list[bytes] = []
        self._messages = iter(messages)
        self._fails = fails

    async def read(self) -> bytes | None:
        await asyncio.sleep(0)
        message = next(self._messages, None)
        if message is None and self._fails is not None:
            raise self._fails
        return message

    async def write(self, message: bytes) -> None:
        self.answers.append(message)


class Silent(Caller):
    """A caller that sends nothing, and does not say that it has sent all."""

    async def read(self) -> bytes | None:
        await asyncio.Event().wait()
        return None


async def refused(_: bytes, __: Context) -> bytes | None:
    pytest.fail("the call was answered at the wrong worker")


class Pair:
    """The worker that a call reaches, and the other one."""

    def __init__(self, crew: Crew, other_workers: OtherWorkers, welcome_s: float = LIMIT_S) -> None:
        self._relay = SessionRelay(crew, other_workers, welcome_s)

    async def answer(self, method: MethodDescriptor, caller: Caller, data: bytes = b"", here: RawCall = refused) -> Any:
        """Answer a call at the first worker, unless it is answered by what is `here`."""
        async with asyncio.timeout(LIMIT_S):
            return await self._relay.around(method, here)(data, cast("Any", caller))


@pytest.fixture
def crew(tmp_path: Path) -> Crew:
    return Crew(0, 2, tmp_path, "token")


@asynccontextmanager
async def pair(
    crew: Crew, method: MethodDescriptor, there: RawCall, welcome_s: float = LIMIT_S
) -> AsyncGenerator[Pair]:
    """Give a worker that has another beside it, which answers a method's calls."""
    other = Crew(1, 2, crew.folder, crew.token)
    relayed = SessionRelay(other, OtherWorkers(other)).around(method, there)
    methods = {path_of(method.full_name): Method(relayed, takes_stream=method.client_streaming)}
    async with served_methods(methods, at=crew.folder / "calls-1"), OtherWorkers(crew) as other_workers:
        other_workers.have_come()
        yield Pair(crew, other_workers, welcome_s)


async def echo(_: bytes, context: Context) -> None:
    while (message := await context.read()) is not None:
        await context.write(message)


async def test_a_stream_goes_on_where_its_session_is(crew: Crew) -> None:
    caller = Caller([b"1", b"2", b"3" * 1_000_000])
    async with pair(crew, SESSION, echo) as workers:
        assert await workers.answer(SESSION, caller) is None
    assert caller.answers == [b"1", b"2", b"3" * 1_000_000]


@pytest.mark.parametrize("answer", [b"", b"answer"])
async def test_an_upload_comes_to_the_session_and_is_answered(crew: Crew, answer: bytes) -> None:
    came: list[bytes | None] = []

    async def take(_: bytes, context: Context) -> bytes:
        came.extend([await context.read(), await context.read(), await context.read()])
        return answer

    async with pair(crew, UPLOAD, take) as workers:
        assert await workers.answer(UPLOAD, Caller([b"1", b"2"])) == answer
    assert came == [b"1", b"2", None]


async def test_an_export_comes_from_the_session(crew: Crew) -> None:
    async def export(data: bytes, context: Context) -> None:
        await context.write(data)
        await context.write(b"2")

    caller = Caller()
    async with pair(crew, EXPORT, export) as workers:
        assert await workers.answer(EXPORT, caller, b"asked") is None
    assert caller.answers == [b"asked", b"2"]


async def test_a_call_of_one_message_is_answered_where_the_session_is(crew: Crew) -> None:
    seen: list[tuple[str, str]] = []

    async def reset(data: bytes, context: Context) -> bytes:
        seen.extend(entry for entry in context.metadata if entry[0] == "inferwire-session")
        return data + b" there"

    async with pair(crew, RESET, reset) as workers:
        assert await workers.answer(RESET, Caller(), b"reset") == b"reset there"
    assert seen == [("inferwire-session", "a-1")]


@pytest.mark.parametrize("session", ["a-0", "a", "", "a-2"])
@pytest.mark.parametrize("method", [SESSION, UPLOAD, EXPORT, RESET])
async def test_a_session_that_no_other_worker_can_have_is_looked_for_here(
    crew: Crew, method: MethodDescriptor, session: str
) -> None:
    async def here(data: bytes, _: Context) -> bytes:
        return data + b" here"

    async with pair(crew, method, refused) as workers:
        assert await workers.answer(method, Caller(session=session), b"asked", here) == b"asked here"


async def test_no_other_worker_is_asked_before_all_are_there(crew: Crew) -> None:
    async def here(data: bytes, _: Context) -> bytes:
        return data + b" here"

    async with OtherWorkers(crew) as other_workers:
        assert await Pair(crew, other_workers).answer(RESET, Caller(), b"asked", here) == b"asked here"


@pytest.mark.parametrize("method", [SESSION, UPLOAD])
async def test_a_call_that_fails_while_its_caller_sends_says_why(crew: Crew, method: MethodDescriptor) -> None:
    async def refuse(_: bytes, context: Context) -> None:
        await context.read()
        raise ServingError(Code.TOO_LARGE, "more than there is room for")

    async with pair(crew, method, refuse) as workers:
        with pytest.raises(RpcStatus, match="more than there is room for") as failed:
            await workers.answer(method, Caller([b"1" * 100_000] * 100))
    assert failed.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (CODE_METADATA, "TOO_LARGE") in failed.value.trailers


async def test_a_call_that_ends_while_its_caller_sends_nothing_ends(crew: Crew) -> None:
    async def welcome(_: bytes, context: Context) -> None:
        await context.write(b"welcome")

    caller = Silent()
    async with pair(crew, SESSION, welcome) as workers:
        assert await workers.answer(SESSION, caller) is None
    assert caller.answers == [b"welcome"]


async def test_what_a_caller_sends_and_cannot_be_taken_ends_the_call_there(crew: Crew) -> None:
    has_ended = asyncio.Event()

    async def listen(_: bytes, context: Context) -> None:
        try:
            await echo(b"", context)
            await asyncio.Event().wait()
        finally:
            has_ended.set()

    async with pair(crew, SESSION, listen) as workers:
        with pytest.raises(ServingError, match="is no message"):
            await workers.answer(SESSION, Caller([b"1"], fails=invalid_input("this is no message")))
        async with asyncio.timeout(LIMIT_S):
            await has_ended.wait()


async def test_a_caller_that_leaves_ends_the_call_there(crew: Crew) -> None:
    has_begun, has_ended = asyncio.Event(), asyncio.Event()

    async def listen(_: bytes, context: Context) -> None:
        has_begun.set()
        try:
            await context.read()
        finally:
            has_ended.set()

    async with pair(crew, SESSION, listen) as workers, asyncio.timeout(LIMIT_S):
        call = asyncio.ensure_future(workers.answer(SESSION, Silent()))
        await has_begun.wait()
        call.cancel()
        await has_ended.wait()
        assert await asyncio.gather(call, return_exceptions=True) != [None]
        assert call.cancelled()


@pytest.mark.parametrize("is_ending", [False, True])
@pytest.mark.parametrize("method", [SESSION, UPLOAD, EXPORT])
async def test_a_session_whose_worker_has_gone_is_lost(crew: Crew, method: MethodDescriptor, is_ending: bool) -> None:
    async with OtherWorkers(crew) as other_workers:
        other_workers.have_come()
        if is_ending:
            other_workers.may_leave()
        with pytest.raises(ServingError) as failed:
            await Pair(crew, other_workers).answer(method, Caller([b"1"]))
    expected = (
        (Code.SHUTTING_DOWN, "the server is shutting down")
        if is_ending
        else (Code.SESSION_EXPIRED, "worker 2 of this server, which has the session, does not answer")
    )
    assert (failed.value.code, failed.value.message) == expected


async def test_a_session_whose_worker_does_not_welcome_its_client_is_lost(crew: Crew) -> None:
    async def hang(_: bytes, context: Context) -> None:
        await context.read()
        await asyncio.Event().wait()

    async with pair(crew, SESSION, hang, welcome_s=0.01) as workers:
        with pytest.raises(ServingError, match=r"has not answered within 0\.01 s") as failed:
            await workers.answer(SESSION, Silent())
    assert failed.value.code is Code.SESSION_EXPIRED


async def test_an_upload_may_take_any_time(crew: Crew) -> None:
    async def take(_: bytes, context: Context) -> bytes:
        return await context.read() or b""

    async with pair(crew, UPLOAD, take, welcome_s=0) as workers:
        assert await workers.answer(UPLOAD, Caller([b"1"])) == b"1"
