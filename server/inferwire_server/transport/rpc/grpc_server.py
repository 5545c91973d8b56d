"""The gRPC port: which services answer on it, how it opens, and how it closes without losing calls."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import structlog
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from inferwire_proto.inferwire.v1 import devices_pb2, inference_pb2, models_pb2, states_pb2, tensors_pb2
from inferwire_server.open_inference.stubs import grpc_service_pb2
from inferwire_server.service import Services
from inferwire_server.transport.connection_age import Ages
from inferwire_server.transport.http2.server import Http2Server
from inferwire_server.transport.listening import listen
from inferwire_server.transport.rpc import health_calls, oip_calls
from inferwire_server.transport.rpc.call_head import CallHead
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.device_calls import DeviceCalls
from inferwire_server.transport.rpc.dispatcher import Dispatcher
from inferwire_server.transport.rpc.health_calls import HealthCalls
from inferwire_server.transport.rpc.inference_calls import InferenceCalls
from inferwire_server.transport.rpc.methods import (
    Around,
    Guard,
    Method,
    RawCall,
    Service,
    methods_of,
    path_of,
    requests,
)
from inferwire_server.transport.rpc.model_calls import ModelCalls
from inferwire_server.transport.rpc.oip_calls import OipCalls
from inferwire_server.transport.rpc.state_calls import StateCalls
from inferwire_server.transport.rpc.tensor_calls import TensorCalls
from inferwire_server.transport.session.socket_sessions import SocketSessions
from inferwire_server.transport.tls import Tls
from inferwire_server.transport.trace_context import JoinTrace
from inferwire_server.transport.unix_socket import socket_file

log = structlog.stdlib.get_logger()

_FLUSH_S = 1.0
"""How long the last answers may take to leave once every call has ended. Callers that take them have longer."""

_HOLD_S = 0.1
"""How long the port stays open while all calls are refused: callers whose calls have just ended call again, and are
told why they are refused."""

_CUT_S = 0.1
"""How long what was sent may take to leave if calls are cut off."""

_NOT_HTTP2 = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"this is the gRPC port, which takes no HTTP/1.1: REST calls go to the HTTP port, "
    b"8000 unless set with --http-port\n"
)
"""What a peer that speaks something else than HTTP/2 is told."""

_HEALTH: Any = health_pb2.DESCRIPTOR.services_by_name["Health"]


@dataclass(frozen=True, slots=True)
class GrpcOptions:
    """Where the server listens, on a port (0 picks a free one) and at a path if one is given, and how much it takes.

    Attributes:
        shares_port: Whether other processes may listen there as well: the system then spreads connections over them.
        beside: A further Unix socket on which it listens, for this server's other processes.
        tls: The certificate that the port shows; None for a plain port.
        join_trace: Makes what a call of one message does part of its caller's trace; None if there are no traces.
        ages: How old connections may become; those of sessions, and of other processes, any age.
    """

    host: str = "127.0.0.1"
    port: int = 8001
    max_message_bytes: int = 256 << 20
    socket: Path | None = None
    shares_port: bool = False
    beside: Path | None = None
    tls: Tls | None = None
    join_trace: JoinTrace | None = None
    ages: Ages = field(default_factory=Ages)


_NOTHING: Mapping[str, RawCall] = {}


class GrpcServer:
    """The gRPC interface of the services, open inside `async with`. `around` wraps their calls, `further` adds calls.

    Calls that are added check by themselves who calls. Sessions on plain sockets come to the same port, if they are
    taken; it is drained together with them.
    """

    def __init__(
        self,
        services: Services,
        options: GrpcOptions,
        sockets: SocketSessions,
        around: Around | None = None,
        further: Mapping[str, RawCall] = _NOTHING,
    ) -> None:
        self._options = options
        self._drain = sockets.drain
        offered = _offered(services, sockets, options)
        self._health = HealthCalls(services.health, self._drain, [service.name for service in offered])
        methods = _methods([*offered, _health_service(self._health)], options.join_trace, around)
        methods |= {path_of(name): Method(call, takes_stream=True, is_keyless=True) for name, call in further.items()}
        guard = Guard(self._drain, services.refusals, services.access)
        self._dispatcher = Dispatcher(methods, guard, options.max_message_bytes, options.ages)
        self._server: Http2Server[CallHead] = Http2Server(self._dispatcher.connect, _NOT_HTTP2, other=sockets.other)
        self._open = AsyncExitStack()
        self.port = options.port

    def __repr__(self) -> str:
        return f"<GrpcServer {self._options.host}:{self.port}: {self._drain!r}>"

    @property
    def connections(self) -> int:
        """How many connections are open, including those of other workers."""
        return self._server.connections

    async def __aenter__(self) -> GrpcServer:
        options = self._options
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self._server)
            opening.push_async_callback(self._dispatcher.end)
            listener = listen("gRPC", options.host, options.port, shares_port=options.shares_port)
            self.port = listener.getsockname()[1]
            self._server.listen(listener, None if options.tls is None else options.tls.grpc)
            if options.beside is not None:
                beside = opening.enter_context(socket.socket(socket.AF_UNIX))
                beside.bind(os.fspath(options.beside))
                self._server.listen(beside, connect=self._dispatcher.connect_worker)
            if (path := options.socket) is not None:
                cannot = f"cannot listen for gRPC at '{path}'"
                file = opening.enter_context(socket.socket(socket.AF_UNIX))
                opening.enter_context(socket_file(path, lambda at: file.bind(os.fspath(at)), cannot))
                self._server.listen(file)
            self._open = opening.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._open.aclose()

    def publish_readiness(self) -> None:
        """Tell callers that watch the health that it may have changed."""
        self._health.publish()

    def part(self) -> None:
        """Have callers begin nothing more on their connections: new connections may lead to other servers.

        What has begun goes on, including sessions.
        """
        self._server.part()

    async def drain(self, grace_s: float, others: Awaitable[object] | None = None) -> int:
        """Send callers away, wait for running calls and then for `others`, which may still call, and close the port.

        Calls that have not begun by then are refused, including those that are still being sent. Callers that take
        their answers have what is left of `grace_s` for it. Give how many calls were cut off.
        """
        ends_at = monotonic() + grace_s
        left = await self._drain.drain(grace_s)
        if others is not None:
            await others
        self._drain.close()
        self._dispatcher.refuse_unbegun()
        await asyncio.sleep(_HOLD_S)
        cut = await self._server.close(_CUT_S if left else _FLUSH_S, ends_at - monotonic())
        if left:
            log.warning("calls and sessions were cut off: they had not ended in time", calls=left)
        if cut:
            log.warning("answers were cut off: their callers did not take them in time", answers=cut)
        return left + cut


def _methods(services: list[Service], join_trace: JoinTrace | None, around: Around | None) -> dict[str, Method]:
    """Give what answers the calls of each path: those of the services, and of gRPC's reflection of them all."""
    methods = {path: method for service in services for path, method in methods_of(service, join_trace, around)}
    methods[f"/{reflection.SERVICE_NAME}/ServerReflectionInfo"] = Method(_reflecting(services), takes_stream=True)
    return methods


def _health_service(health: HealthCalls) -> Service:
    keyless = frozenset(_HEALTH.methods_by_name)
    return Service(_HEALTH, health, unimplemented=health_calls.UNIMPLEMENTED, keyless=keyless)


def _offered(services: Services, sockets: SocketSessions, options: GrpcOptions) -> list[Service]:
    limit, drain = options.max_message_bytes, sockets.drain
    inference = InferenceCalls(services, sockets, limit)
    oip = OipCalls(services, drain, limit)
    return [
        Service(grpc_service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"], oip, keyless=oip_calls.KEYLESS),
        Service(
            inference_pb2.DESCRIPTOR.services_by_name["InferenceService"], inference, keeping=frozenset({"Session"})
        ),
        Service(states_pb2.DESCRIPTOR.services_by_name["StateService"], StateCalls(services, limit)),
        Service(tensors_pb2.DESCRIPTOR.services_by_name["TensorService"], TensorCalls(services, limit)),
        Service(models_pb2.DESCRIPTOR.services_by_name["ModelService"], ModelCalls(services)),
        Service(devices_pb2.DESCRIPTOR.services_by_name["DeviceService"], DeviceCalls(services)),
    ]


def _reflecting(services: list[Service]) -> RawCall:
    """Make what answers gRPC's reflection."""
    names = [*(service.name for service in services), reflection.SERVICE_NAME]
    answering: Any = reflection.aio.ReflectionServicer(names, pool=_reflected(services))

    async def reflect(_: bytes, context: Context) -> None:
        answers: AsyncIterator[reflection_pb2.ServerReflectionResponse] = answering.ServerReflectionInfo(
            requests(reflection_pb2.ServerReflectionRequest, context), None
        )
        async for answer in answers:
            await context.write(answer.SerializeToString())

    return reflect


def _reflected(services: list[Service]) -> DescriptorPool:
    """Gather what reflection shows: the files of all services, from whatever pool they are in."""
    pool = DescriptorPool()
    seen: set[str] = set()
    files: list[Any] = [service.descriptor.file for service in services]
    for file in (*files, reflection_pb2.DESCRIPTOR):
        for needed in _with_dependencies(file):
            if needed.name not in seen:
                seen.add(needed.name)
                proto = FileDescriptorProto()
                needed.CopyToProto(proto)
                pool.Add(proto)
    return pool


def _with_dependencies(file: Any) -> Iterator[FileDescriptor]:
    for dependency in file.dependencies:
        yield from _with_dependencies(dependency)
    yield file
