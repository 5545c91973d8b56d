"""Calls from this worker to the others of the server: over gRPC, at sockets of their own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, TypeVar

import grpc
import grpc.aio
import structlog

from inferwire_proto.errors import CODE_METADATA, Code
from inferwire_proto.metadata import SESSION_METADATA
from inferwire_server.crew import Crew
from inferwire_server.errors import ServingError, shutting_down
from inferwire_server.seldom import Seldom
from inferwire_server.transport import request_ids
from inferwire_server.transport.rpc.call_head import Metadata
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.methods import path_of

log = structlog.stdlib.get_logger()

CREW_METADATA = "inferwire-crew"
"""The metadata entry of a call from one worker to another; its value shows that it is one."""

_PASSED_ON = frozenset({"authorization", "traceparent", "tracestate", request_ids.NAME, SESSION_METADATA})
"""The entries of a caller's metadata that another worker reads: its key, its trace, its session and its request's id.
Others are left out: they may be as long as the limit, or such that gRPC's clients do not send them, and the other
worker would not read them."""

_CARRIED = re.compile("[ -~]*")
"""What gRPC's clients send. No key, trace, session or id of a request that is logged has anything else in it."""

_BROKEN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL)
"""How gRPC's client says that a call has lost its connection: INTERNAL while it was sending."""

_SILENCE_S = 10.0
"""How long a worker that owes an answer may be silent before it is pinged, and how long after that. A process that is
stopped keeps its sockets open: only its silence shows it."""

T = TypeVar("T")


class OtherWorkers:
    """Channels to the other workers, open inside `async with`.

    If a call does not come through, the log says why, once a minute by `clock`, which shows the time in seconds.
    """

    def __init__(self, crew: Crew, silence_s: float = _SILENCE_S, clock: Callable[[], float] = monotonic) -> None:
        self._crew = crew
        self._tells = Seldom(clock)
        self._options = _options(round(silence_s * 1000))
        self._channels: dict[int, grpc.aio.Channel] = {}
        self._are_there = False
        self._may_leave = False

    def __repr__(self) -> str:
        return f"<OtherWorkers of worker {self._crew.index} of {self._crew.count}>"

    async def __aenter__(self) -> OtherWorkers:
        for index in self._crew.others:
            self._channels[index] = grpc.aio.insecure_channel(self._crew.address_of(index), options=self._options)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for channel in self._channels.values():
            await channel.close()

    @property
    def are_there(self) -> bool:
        """Whether all other workers listen."""
        return self._are_there

    def have_come(self) -> None:
        """Record that all other workers listen."""
        self._are_there = True

    def may_leave(self) -> None:
        """Record that the server ends, and the other workers with it."""
        self._may_leave = True

    def require_all(self) -> None:
        """Check that all other workers are there.

        Raises:
            ServingError: MODEL_NOT_READY if the server is still starting.
        """
        if not self._are_there:
            sentence = "the server is starting: not all of its workers are there yet"
            raise ServingError(Code.MODEL_NOT_READY, sentence, retry_after_s=1.0)

    async def ask(self, worker: int, method: str, data: bytes, context: Context | None, *, alone: bool) -> bytes:
        """Have a worker answer a call, named in full, with what it reads of the metadata that the call came with.

        Raises:
            grpc.aio.AioRpcError: What the worker answers instead.
            ServingError: MODEL_NOT_READY if it is silent for too long, or is gone; SHUTTING_DOWN if the server ends.
        """
        channel: Any = self._channels[worker]
        metadata = self._metadata(context, alone=alone)
        try:
            return await channel.unary_unary(path_of(method))(data, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE and CODE_METADATA not in error.trailing_metadata():
                if self._may_leave:
                    raise shutting_down() from error
                self._tell(worker, error)
                sentence = f"worker {worker + 1} of this server does not answer"
                raise ServingError(Code.MODEL_NOT_READY, sentence, retry_after_s=1.0) from error
            raise

    @asynccontextmanager
    async def call(self, worker: int, method: str, context: Context) -> AsyncGenerator[Any, None]:
        """Begin a call of many messages at the worker that has its session, and give gRPC's own object for it.

        It is broken off where the block is left before its end.

        Raises:
            grpc.aio.AioRpcError: What the worker answers instead.
            ServingError: SESSION_EXPIRED if it is silent for too long, or is gone; SHUTTING_DOWN if the server ends.
        """
        channel: Any = self._channels[worker]
        call = channel.stream_stream(path_of(method))(metadata=self._metadata(context, alone=True))
        try:
            yield call
        except grpc.aio.AioRpcError as error:
            if error.code() in _BROKEN and CODE_METADATA not in error.trailing_metadata():
                if self._may_leave:
                    raise shutting_down() from error
                self._tell(worker, error)
                sentence = f"worker {worker + 1} of this server, which has the session, does not answer"
                raise ServingError(Code.SESSION_EXPIRED, sentence) from error
            raise
        finally:
            call.cancel()

    async def each(self, ask: Callable[[int], Awaitable[T]]) -> list[T]:
        """Ask all other workers at once, and give their answers in order; none before the workers are there.

        Raises:
            Exception: What the first of those that failed has raised, once all have answered.
        """
        asked = self._crew.others if self._are_there else ()
        found = await asyncio.gather(*(ask(worker) for worker in asked), return_exceptions=True)
        return list(_raising(found))

    def asks_this_worker_only(self, context: Context) -> bool:
        """Whether another worker makes a call, and wants this worker's own answer."""
        return (CREW_METADATA, self._mark(alone=True)) in context.metadata

    def is_passed_on(self, context: Context) -> bool:
        """Whether another worker makes a call for a caller of its own, which wants the answer of the whole server."""
        return (CREW_METADATA, self._mark(alone=False)) in context.metadata

    def _tell(self, worker: int, error: grpc.aio.AioRpcError) -> None:
        if self._tells.is_due():
            log.error("a worker cannot be called", number=worker + 1, reason=error.details())

    def _metadata(self, context: Context | None, *, alone: bool) -> Metadata:
        passed_on = () if context is None else _passed_on(context.metadata)
        return (*passed_on, (CREW_METADATA, self._mark(alone=alone)))

    def _mark(self, *, alone: bool) -> str:
        return f"{self._crew.token}-alone" if alone else self._crew.token


def _options(silence_ms: int) -> tuple[tuple[str, int], ...]:
    return (
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.keepalive_time_ms", silence_ms),
        ("grpc.keepalive_timeout_ms", silence_ms),
        # A keepalive's ping is a ping like any other, which gRPC lets wait for a minute by default.
        ("grpc.http2.ping_timeout_ms", silence_ms),
        ("grpc.http2.max_pings_without_data", 0),
    )


def _passed_on(metadata: Metadata) -> Iterator[tuple[str, str]]:
    for key, value in metadata:
        if key in _PASSED_ON and _CARRIED.fullmatch(said := value.strip()):
            yield key, said


def _raising(found: Iterable[T | BaseException]) -> Iterable[T]:
    for each in found:
        if isinstance(each, BaseException):
            raise each
        yield each
