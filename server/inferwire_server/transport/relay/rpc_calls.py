"""gRPC calls of one message each way that concern other workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import grpc.aio
from google.protobuf.descriptor import MethodDescriptor

from inferwire_server.transport.relay.audiences import RPC, RpcAudience
from inferwire_server.transport.relay.other_workers import OtherWorkers
from inferwire_server.transport.relay.routing import Routing
from inferwire_server.transport.relay.sums import Sum
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.methods import RawCall
from inferwire_server.transport.rpc.status import RpcStatus

_UnaryCall: TypeAlias = Callable[[bytes, Context], Awaitable[bytes]]
"""What answers calls of one message each way."""


class RpcRelay:
    """Puts the crew between a gRPC server and its calls."""

    def __init__(self, routing: Routing, other_workers: OtherWorkers) -> None:
        self._routing = routing
        self._other_workers = other_workers

    def around(self, method: MethodDescriptor, call: RawCall) -> RawCall:
        """Give what answers a call instead; the call itself if it is not for several workers."""
        found = RPC.get(method.full_name)
        return call if found is None else self._relaying(method.full_name, found, cast("_UnaryCall", call))

    def _relaying(self, method: str, found: RpcAudience, call: _UnaryCall) -> _UnaryCall:
        async def relayed(data: bytes, context: Context) -> bytes:
            if self._routing.stays(found.audience) or self._other_workers.asks_this_worker_only(context):
                return await call(data, context)
            if found.reads is not None and found.reads(data):
                return await call(data, context)
            asked = _RpcCall(found.subject(data), method, data, context, call, self._other_workers)
            try:
                return await self._routing.answer(found.audience, asked)
            except grpc.aio.AioRpcError as error:
                raise answered_with(error) from error

        return relayed


def answered_with(error: grpc.aio.AioRpcError) -> RpcStatus:
    """Have a call fail as it has failed at another worker, whatever that has answered."""
    trailers = tuple((name, str(value)) for name, value in error.trailing_metadata())
    return RpcStatus(error.code(), error.details() or "", trailers)


@dataclass(frozen=True, slots=True)
class _RpcCall:
    """One call, with what it takes to have another worker answer it."""

    subject: str
    method: str
    data: bytes
    context: Context
    call: _UnaryCall
    other_workers: OtherWorkers

    async def here(self) -> bytes:
        """Answer it here."""
        return await self.call(self.data, self.context)

    async def at(self, worker: int, *, alone: bool) -> bytes:
        """Have another worker answer it."""
        return await self.other_workers.ask(worker, self.method, self.data, self.context, alone=alone)

    def added(self, add: Sum, answers: Sequence[bytes]) -> bytes:
        """Make one answer of several."""
        return add(answers)
