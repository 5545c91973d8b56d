"""The gRPC port: which services answer on it, how it opens, and how it closes without losing calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from inferwire_proto.inferwire.v1 import devices_pb2, inference_pb2, models_pb2, states_pb2, tensors_pb2
from inferwire_server.errors import invalid_input
from inferwire_server.service import Services
from inferwire_server.transport.adoption import Adopt
from inferwire_server.transport.listening import CannotListen, authority, reason_not_to_listen, require_free
from inferwire_server.transport.oip.stubs import grpc_service_pb2
from inferwire_server.transport.rpc import health_calls, oip_calls
from inferwire_server.transport.rpc.device_calls import DeviceCalls
from inferwire_server.transport.rpc.health_calls import HealthCalls
from inferwire_server.transport.rpc.inference_calls import InferenceCalls
from inferwire_server.transport.rpc.methods import Around, Call, Guard, Service, generic_handler, raw_handler
from inferwire_server.transport.rpc.model_calls import ModelCalls
from inferwire_server.transport.rpc.oip_calls import OipCalls
from inferwire_server.transport.rpc.state_calls import StateCalls
from inferwire_server.transport.rpc.tensor_calls import TensorCalls
from inferwire_server.transport.session.socket_sessions import SocketSessions
from inferwire_server.transport.tls import Tls
from inferwire_server.transport.unix_socket import socket_file

_FLUSH_S = 1.0
"""How long the last answers may take to leave once every call has ended."""

_HOLD_S = 0.1
"""How long calls are held before the port closes, so that those who call one after the other have one here."""


_HEALTH: Any = health_pb2.DESCRIPTOR.services_by_name["Health"]


@dataclass(frozen=True, slots=True)
class GrpcOptions:
    """Where the server listens, on a port (0 picks a free one) and at a path if one is given, and how much it takes.

    Attributes:
        shares_port: Whether other processes may listen there as well: the system then spreads connections over them.
        address: Where it listens besides, for processes that are told.
        tls: What the port shows; None for a plain one.
        adopt: Makes what a call of one message does part of its caller's trace; None where there are no traces.
    """

    host: str = "127.0.0.1"
    port: int = 8001
    max_message_bytes: int = 256 << 20
    socket: Path | None = None
    shares_port: bool = False
    address: str | None = None
    tls: Tls | None = None
    adopt: Adopt | None = None


_NOTHING: Mapping[str, Call] = {}


class GrpcServer:
    """The gRPC face of the services, open inside `async with`; with something around their calls, and further ones.

    It is drained together with the sessions on plain sockets, to which its own are told the way.
    """

    def __init__(
        self,
        services: Services,
        options: GrpcOptions,
        around: Around | None = None,
        further: Mapping[str, Call] = _NOTHING,
        sockets: SocketSessions | None = None,
    ) -> None:
        self._services = services
        self._options = options
        self._around = around
        self._further = further
        if sockets is None:
            sockets = SocketSessions(services, options.max_message_bytes)
        self._drain = sockets.drain
        self._offered = _offered(services, sockets, options)
        self._health = HealthCalls(services.health, self._drain, [service.name for service in self._offered])
        self._server: grpc.aio.Server | None = None
        self._socket = ExitStack()
        self.port = options.port

    def __repr__(self) -> str:
        return f"<GrpcServer {self._options.host}:{self.port}: {self._drain!r}>"

    async def __aenter__(self) -> GrpcServer:
        server = self._build()
        with ExitStack() as opening:
            self.port = self._bind(server)
            if self._options.address is not None:
                server.add_insecure_port(self._options.address)
            if (path := self._options.socket) is not None:
                cannot = f"cannot listen for gRPC at '{path}'"
                opening.enter_context(socket_file(path, lambda at: server.add_insecure_port(f"unix:{at}"), cannot))
            await server.start()
            self._socket = opening.pop_all()
        self._server = server
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._server is not None:
            await self._server.stop(None)
        self._socket.close()

    def publish_readiness(self) -> None:
        """Tell those who watch the health that it may have changed."""
        self._health.publish()

    async def drain(self, grace_s: float, others: Awaitable[object] | None = None) -> int:
        """Send callers away, wait for the calls that run, and for others who may call still; close the port.

        Give how many calls were cut off.
        """
        left = await self._drain.drain(grace_s)
        if others is not None:
            await others
        if self._server is not None:
            await self._close(self._server, _HOLD_S if left else _FLUSH_S)
        return left

    async def _close(self, server: grpc.aio.Server, flush_s: float) -> None:
        """Close the port so that callers see that it is the server that goes.

        gRPC cancels calls that come once it closes: their callers would take it for a cancel of their own, and not call
        another server. Connections hear of the end in the order in which they are written to. So calls are held, the
        end is announced, after which callers begin no more on these connections, and then the held ones are refused.
        """
        if not self._drain.is_busy:
            await server.stop(flush_s)
            return
        with self._drain.holding():
            await asyncio.sleep(_HOLD_S)
            closing = asyncio.ensure_future(server.stop(flush_s))
            # It announces the end before it waits for anything.
            await asyncio.sleep(0)
        await closing

    def _build(self) -> grpc.aio.Server:
        health = Service(
            _HEALTH, self._health, unimplemented=health_calls.UNIMPLEMENTED, keyless=frozenset(_HEALTH.methods_by_name)
        )
        services = [*self._offered, health]
        server = grpc.aio.server(options=_channel_options(self._options))
        guard = Guard(self._drain, self._services.refusals, self._services.access, self._options.adopt)
        handlers = [generic_handler(service, guard, self._around) for service in services]
        further = [raw_handler(method, call, guard) for method, call in self._further.items()]
        server.add_generic_rpc_handlers([*handlers, guard.before(_reflection(services)), *further])
        return server

    def _bind(self, server: grpc.aio.Server) -> int:
        host, port, tls = self._options.host, self._options.port, self._options.tls
        if not self._options.shares_port:
            # gRPC would write lines of its own to the log of a server that cannot listen.
            require_free("gRPC", host, port)
        place = authority(host, port)
        try:
            bound = server.add_insecure_port(place) if tls is None else server.add_secure_port(place, tls.grpc)
        except RuntimeError as error:
            raise self._cannot_listen() from error
        if bound == 0:
            raise self._cannot_listen()
        return bound

    def _cannot_listen(self) -> Exception:
        """Ask the system why, which gRPC does not say."""
        host, port, tls = self._options.host, self._options.port, self._options.tls
        reason = reason_not_to_listen(host, port)
        if reason is None and tls is not None:
            return invalid_input(f"--tls-certificate is '{tls.files[0]}', and gRPC cannot speak TLS with it")
        return CannotListen("gRPC", host, port, reason)


def _offered(services: Services, sockets: SocketSessions, options: GrpcOptions) -> list[Service]:
    limit, drain = options.max_message_bytes, sockets.drain
    inference = InferenceCalls(services, sockets, limit)
    oip = OipCalls(services, drain, limit)
    return [
        # A call's service is looked for in this order, at each call. A session's stream is one for many executions.
        Service(grpc_service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"], oip, keyless=oip_calls.KEYLESS),
        Service(inference_pb2.DESCRIPTOR.services_by_name["InferenceService"], inference),
        Service(states_pb2.DESCRIPTOR.services_by_name["StateService"], StateCalls(services, limit)),
        Service(tensors_pb2.DESCRIPTOR.services_by_name["TensorService"], TensorCalls(services, limit)),
        Service(models_pb2.DESCRIPTOR.services_by_name["ModelService"], ModelCalls(services)),
        Service(devices_pb2.DESCRIPTOR.services_by_name["DeviceService"], DeviceCalls(services)),
    ]


def _channel_options(options: GrpcOptions) -> tuple[tuple[str, int], ...]:
    return (
        ("grpc.max_receive_message_length", options.max_message_bytes),
        ("grpc.max_send_message_length", -1),
        # Two servers on one port would share its connections without a word.
        ("grpc.so_reuseport", int(options.shares_port)),
        # Clients may ping as often as they like; a client whose machine has gone is noticed.
        ("grpc.http2.min_ping_interval_without_data_ms", 1000),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        # A keepalive's ping is a ping like any other, and those have a minute.
        ("grpc.http2.ping_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
    )


def _reflection(services: list[Service]) -> grpc.GenericRpcHandler:
    """Make what answers gRPC's reflection."""
    names = [*(service.name for service in services), reflection.SERVICE_NAME]
    answering: Any = reflection.aio.ReflectionServicer(names, pool=_reflected(services))
    rpc: Any = grpc
    handler = rpc.stream_stream_rpc_method_handler(
        answering.ServerReflectionInfo,
        reflection_pb2.ServerReflectionRequest.FromString,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    return rpc.method_handlers_generic_handler(reflection.SERVICE_NAME, {"ServerReflectionInfo": handler})


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
