"""gRPC calls that use what a session owns: the worker that has it answers, whichever the connection leads to.

A client that opens its connection again may reach another worker than before. Its calls, and the stream on which it
resumes its session, are then handed on.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc.aio
from google.protobuf.descriptor import MethodDescriptor

from inferwire_proto.errors import Code
from inferwire_server.crew import Crew
from inferwire_server.errors import ServingError
from inferwire_server.transport.relay.audiences import SESSIONS
from inferwire_server.transport.relay.other_workers import OtherWorkers
from inferwire_server.transport.relay.rpc_calls import answered_with
from inferwire_server.transport.rpc.caller import named_session_id
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.methods import RawCall

_WELCOME_S = 3.0
"""How long a worker may take to welcome a client that resumes its session: clients wait for five seconds. One that
hangs has lost its sessions, since the server ends with it, and its clients are not to wait for that."""


class SessionRelay:
    """Puts the workers that have sessions between a gRPC server and its calls."""

    def __init__(self, crew: Crew, other_workers: OtherWorkers, welcome_s: float = _WELCOME_S) -> None:
        self._crew = crew
        self._other_workers = other_workers
        self._welcome_s = welcome_s

    def around(self, method: MethodDescriptor, call: RawCall) -> RawCall:
        """Give what answers a call instead; the call itself if it uses nothing of a session's."""
        return self._relaying(method, call) if method.full_name in SESSIONS else call

    def _relaying(self, method: MethodDescriptor, call: RawCall) -> RawCall:
        here = self._ending_in_steps(call) if method.client_streaming else call

        async def relayed(data: bytes, context: Context) -> bytes | None:
            worker = self._crew.owner_of(named_session_id(context.metadata) or "")
            # While the server starts, a session of another worker is most likely of an earlier server.
            if worker == self._crew.index or not self._other_workers.are_there:
                return await here(data, context)
            try:
                if method.client_streaming:
                    first_s = self._welcome_s if method.server_streaming else None
                    return await self._hand_on(worker, method.full_name, context, first_s)
                if method.server_streaming:
                    return await self._fetch(worker, method.full_name, data, context)
                return await self._other_workers.ask(worker, method.full_name, data, context, alone=True)
            except grpc.aio.AioRpcError as error:
                raise answered_with(error) from error

        return relayed

    def _ending_in_steps(self, call: RawCall) -> RawCall:
        """Have a call end in two steps for another worker that hands on its caller's messages.

        If a call ends while gRPC's client sends something, the client does not say how it has ended. So the other
        worker is sent an empty message first, which no answer is, and the call ends once that sends nothing more.
        """

        async def answer(data: bytes, context: Context) -> bytes | None:
            if not self._other_workers.asks_this_worker_only(context):
                return await call(data, context)
            try:
                last = await call(data, context)
            except Exception:
                await _silence(context)
                raise
            await _silence(context)
            return last

        return answer

    async def _hand_on(self, worker: int, method: str, context: Context, first_s: float | None) -> bytes | None:
        """Have a worker answer a call of many messages, and hand each on as it comes; give the last of the answer's.

        Raises:
            ServingError: SESSION_EXPIRED if the first of the answer's does not come within `first_s` seconds.
        """
        async with self._other_workers.call(worker, method, context) as call:
            has_ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(_send(call, context, has_ended))
                    answer = await _first(call, worker, first_s)
                    while answer:
                        await context.write(answer)
                        answer = await call.read()
                    has_ended.set_result(None)
            except ExceptionGroup as failed:
                raise failed.exceptions[0] from None
            last = await call.read()
            return None if last is grpc.aio.EOF else last

    async def _fetch(self, worker: int, method: str, data: bytes, context: Context) -> None:
        """Have a worker answer a call of one message with many, and hand each on as it comes."""
        async with self._other_workers.call(worker, method, context) as call:
            await call.write(data)
            await call.done_writing()
            while answer := await call.read():
                await context.write(answer)


async def _first(call: Any, worker: int, limit_s: float | None) -> bytes:
    """Give the first message of an answer, if it comes in time."""
    try:
        async with asyncio.timeout(limit_s):
            return await call.read()
    except TimeoutError as error:
        sentence = f"worker {worker + 1} of this server, which has the session, has not answered within {limit_s:g} s"
        raise ServingError(Code.SESSION_EXPIRED, sentence) from error


async def _silence(context: Context) -> None:
    """Have the other worker send nothing more."""
    context.send(b"")
    while await context.read() is not None:
        pass


async def _send(call: Any, context: Context, has_ended: asyncio.Future[None]) -> None:
    """Send what the caller sends, until the answer has ended. This is not cancelled then, which would end the call."""
    try:
        while (message := await _next(context, has_ended)) is not None:
            await call.write(message)
        await call.done_writing()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        # The call is over. Who reads the answer is told why.
        pass


async def _next(context: Context, has_ended: asyncio.Future[None]) -> bytes | None:
    """Give the caller's next message; None once there is none, or the answer has ended."""
    reading = asyncio.ensure_future(context.read())
    try:
        await asyncio.wait((reading, has_ended), return_when=asyncio.FIRST_COMPLETED)
        return reading.result() if reading.done() else None
    finally:
        reading.cancel()
