"""The sockets: every way in which callers and other workers reach this one, opened over the services."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from inferwire_server.composition import Composition
from inferwire_server.crew import Crew
from inferwire_server.metrics.callers import of_connections
from inferwire_server.settings import MEBIBYTE, Settings
from inferwire_server.transport.connection_age import Ages
from inferwire_server.transport.http.server import HttpServer, http_server
from inferwire_server.transport.http.traced import traced
from inferwire_server.transport.listening import require_free
from inferwire_server.transport.relay.connections import give_to, taking_connections
from inferwire_server.transport.relay.front import front_of
from inferwire_server.transport.relay.other_workers import OtherWorkers
from inferwire_server.transport.rest.app import create_app
from inferwire_server.transport.rest.cross_origin import allowing_origins
from inferwire_server.transport.rest.key_check import asking_for_key
from inferwire_server.transport.rpc.grpc_server import GrpcOptions, GrpcServer
from inferwire_server.transport.session.socket_sessions import SocketSessions
from inferwire_server.transport.tls import Tls


class Sockets(NamedTuple):
    """The ways to this worker, and its own to the others."""

    grpc: GrpcServer
    http: HttpServer
    other_workers: OtherWorkers


def tls_of(settings: Settings) -> Tls | None:
    """Read the certificate that the ports show, if there is one.

    Raises:
        ServingError: INVALID_INPUT if it cannot be used.
    """
    certificate, key = settings.tls_certificate, settings.tls_key
    return None if certificate is None or key is None else Tls(certificate, key)


@asynccontextmanager
async def listening(
    settings: Settings, server: Composition, crew: Crew, tls: Tls | None
) -> AsyncGenerator[Sockets, None]:
    """Listen for callers, and where this is one worker of several, for the others.

    Raises:
        CannotListen: If a port cannot be opened.
    """
    max_body_bytes = settings.max_http_body_mb * MEBIBYTE
    join_trace = None if server.traces is None else server.traces.join
    app = traced(create_app(server.services, server.metrics.text, max_body_bytes), join_trace)
    ages = Ages(settings.max_connection_age_s)
    rpc = GrpcOptions(
        settings.host,
        settings.grpc_port,
        settings.max_grpc_message_mb * MEBIBYTE,
        settings.grpc_socket if crew.is_lead else None,
        shares_port=crew.count > 1,
        beside=crew.calls,
        tls=tls,
        join_trace=join_trace,
        ages=ages,
    )
    async with _sessions(server, rpc, crew) as sessions, OtherWorkers(crew) as other_workers:
        front = front_of(crew, app, other_workers, server.services, max_body_bytes)
        guarded = asking_for_key(front.app, server.services)
        front = replace(front, app=allowing_origins(guarded, settings.allow_origins))
        if crew.is_lead and crew.count > 1:
            require_free("gRPC", settings.host, settings.grpc_port)
            require_free("HTTP", settings.host, settings.http_port)
        async with (
            GrpcServer(server.services, rpc, sessions, front.around, front.calls) as grpc_server,
            http_server(
                front.app, settings.host, settings.http_port, shares_port=crew.count > 1, tls=tls, ages=ages
            ) as http,
        ):
            server.metrics.add(
                lambda: of_connections(
                    {
                        "grpc": grpc_server.connections,
                        "http": len(http.connections),
                        "session": sessions.connections,
                    }
                )
            )
            yield Sockets(grpc_server, http, other_workers)


@asynccontextmanager
async def _sessions(server: Composition, rpc: GrpcOptions, crew: Crew) -> AsyncGenerator[SocketSessions, None]:
    """Take sessions on plain sockets, those too whose connections have reached another worker.

    None are taken where several workers speak TLS: a connection with TLS cannot be handed to another process.
    """
    are_taken = rpc.tls is None or crew.count == 1
    with SocketSessions(
        server.services, rpc.max_message_bytes, give_to=partial(give_to, crew), are_taken=are_taken
    ) as sessions:
        async with taking_connections(crew, sessions.take_over) if crew.count > 1 else nullcontext():
            yield sessions
