"""The composition root: opens the server's sockets, runs it, and ends it in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import structlog

from inferwire_proto.frames import UNIX_SUFFIX
from inferwire_server.composition import Composition, compose, configured
from inferwire_server.core.model_states import ModelState
from inferwire_server.engine.backend import Backend
from inferwire_server.engine.watch import changes_in, changes_in_any, follow
from inferwire_server.errors import invalid_input
from inferwire_server.settings import MEBIBYTE, Settings
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.listening import require_free
from inferwire_server.transport.relay.colleagues import Colleagues
from inferwire_server.transport.relay.connections import give_to, taking_connections
from inferwire_server.transport.relay.crew import Crew
from inferwire_server.transport.relay.front import CrewFront, front_of
from inferwire_server.transport.rest.app import create_app
from inferwire_server.transport.rest.http_server import HttpServer, http_server
from inferwire_server.transport.rest.options import RestOptions
from inferwire_server.transport.rpc.grpc_server import GrpcOptions, GrpcServer
from inferwire_server.transport.session.session_file import sessions_at
from inferwire_server.transport.session.socket_sessions import SocketSessions
from inferwire_server.workers.crews import Workers
from inferwire_server.workers.followers import Followers, WorkerEnded

log = structlog.stdlib.get_logger()


_FLUSH_S = 1.0
"""How long after the grace the sockets stay, so that what was cancelled at its end is still answered."""


class _Sockets(NamedTuple):
    """Where callers and the other workers find this one, and where it finds those."""

    grpc: GrpcServer
    http: HttpServer
    colleagues: Colleagues


async def serve(
    settings: Settings, backend: Backend, stop: asyncio.Event, workers: Workers, may_work: Callable[[], Awaitable[None]]
) -> bool:
    """Serve until `stop` is set, then finish what runs within the grace period; say whether all of it stopped.

    Once all is loaded, callers are told that it is ready when it `may_work`.

    Raises:
        ServingError: INVALID_INPUT for settings that cannot be served.
        CannotListen: If a port cannot be opened.
        WorkerEnded: If another of its processes has.
    """
    async with (
        Followers(workers, settings.drain_delay_s + settings.grace_s) as followers,
        compose(settings, backend, new_own_id=workers.crew.new_id) as server,
    ):
        if not workers.crew.is_lead:
            # Callers find this worker on the ports only when it takes what they send.
            await _unless(stop, server.loader.sync())
        async with _listening(settings, server, workers.crew) as sockets:
            followers.begin(replace(settings, grpc_port=sockets.grpc.port, http_port=sockets.http.port))
            server.catalogue.subscribe(sockets.grpc.publish_readiness)
            if workers.crew.is_lead:
                _greet(settings, sockets)

            async def begin() -> None:
                await server.loader.sync()
                await followers.are_ready()
                await may_work()
                followers.take_work()
                if workers.crew.is_lead and not settings.allow_uploads and not server.catalogue.statuses():
                    log.warning("nothing to serve", reason=_why_nothing(settings))
                _take_work(server, sockets)

            lost = await _until(stop, (*_watch(settings, server), begin()), followers)
            followers.stop()
            await _drain(server, sockets, followers, settings)
    if lost is not None:
        raise lost
    return not server.engine.stuck


async def _unless(stop: asyncio.Event, call: Coroutine[Any, Any, Any]) -> None:
    """Make a call to its end, or until it is time to stop."""
    calling, stopping = asyncio.ensure_future(call), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((calling, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not calling.done():
            calling.cancel()
    if calling.done():
        calling.result()


async def _until(
    stop: asyncio.Event, at_work: Iterable[Coroutine[None, None, None]], followers: Followers
) -> WorkerEnded | None:
    """Work until it is time to stop; give the reason if it is one."""
    lost: WorkerEnded | None = None

    async def miss_one() -> None:
        nonlocal lost
        try:
            await followers.until_one_ends()
        except WorkerEnded as ended:
            log.error("cannot go on", reason=str(ended))
            lost = ended
            stop.set()

    async with asyncio.TaskGroup() as group:
        # The watch begins first: what changes while the repository is being loaded is seen, too.
        tasks = [group.create_task(call) for call in (*at_work, miss_one())]
        await stop.wait()
        for task in tasks:
            task.cancel()
    return lost


async def _drain(server: Composition, sockets: _Sockets, followers: Followers, settings: Settings) -> None:
    """Send work elsewhere, finish what runs, and only then close the ports: until then callers are told why."""
    server.services.health.end()
    sockets.grpc.publish_readiness()
    if settings.drain_delay_s:
        log.info("not ready any more", takes_work_for_s=settings.drain_delay_s)
        await asyncio.sleep(settings.drain_delay_s)
    limit_s = settings.grace_s + _FLUSH_S
    jobs = asyncio.ensure_future(server.services.inference.drain(settings.grace_s))
    await asyncio.gather(
        sockets.grpc.drain(limit_s, asyncio.gather(jobs, followers.have_ended())),
        sockets.http.drain(limit_s, jobs),
    )
    log.info("stopped", cancelled=jobs.result())


@asynccontextmanager
async def _listening(settings: Settings, server: Composition, crew: Crew) -> AsyncGenerator[_Sockets, None]:
    """Listen for callers, and where this is one worker of several, for the others.

    Raises:
        CannotListen: If a port cannot be opened.
    """
    if crew.is_lead and crew.count > 1:
        _check_shareable(settings)
    rest = RestOptions(settings.max_http_body_mb * MEBIBYTE)
    app = create_app(server.services, rest, server.metrics.text)
    rpc = GrpcOptions(
        settings.host,
        settings.grpc_port,
        settings.max_grpc_message_mb * MEBIBYTE,
        settings.grpc_socket if crew.is_lead else None,
        shares_port=crew.count > 1,
        address=crew.address,
    )
    async with _sessions(server, rpc.max_message_bytes, crew) as sessions, Colleagues(crew) as colleagues:
        front = front_of(crew, app, colleagues, server.services, rest.max_body_bytes)
        async with (
            GrpcServer(server.services, rpc, front.around, front.calls, sessions) as grpc_server,
            _http(settings, front, crew, sessions) as http,
        ):
            yield _Sockets(grpc_server, http, colleagues)


@asynccontextmanager
async def _sessions(server: Composition, max_message_bytes: int, crew: Crew) -> AsyncGenerator[SocketSessions, None]:
    """Take sessions on plain sockets; where there are several workers, whichever their connections reach."""
    with SocketSessions(server.services, Drain(), max_message_bytes, give_to=partial(give_to, crew)) as sessions:
        async with taking_connections(crew, sessions.take_over) if crew.count > 1 else nullcontext():
            yield sessions


@asynccontextmanager
async def _http(
    settings: Settings, front: CrewFront, crew: Crew, sessions: SocketSessions
) -> AsyncGenerator[HttpServer, None]:
    """Open the HTTP port, for sessions on plain sockets as well, and their own socket beside gRPC's."""
    async with AsyncExitStack() as opening:
        if settings.grpc_socket is not None and crew.is_lead:
            beside = settings.grpc_socket.with_name(settings.grpc_socket.name + UNIX_SUFFIX)
            await opening.enter_async_context(sessions_at(beside, sessions.take_over))
        http = await opening.enter_async_context(
            http_server(
                front.app,
                settings.host,
                settings.http_port,
                shares_port=crew.count > 1,
                take_over=sessions.take_over,
            )
        )
        sessions.port = http.port
        yield http


def _check_shareable(settings: Settings) -> None:
    """Refuse what several workers cannot serve by."""
    if settings.max_http_body_mb >= settings.max_grpc_message_mb:
        raise invalid_input(
            f"--max-http-body-mb is {settings.max_http_body_mb}, expected less than --max-grpc-message-mb, which is "
            f"{settings.max_grpc_message_mb}: with --workers a body may have to go from one worker to another"
        )
    require_free("gRPC", settings.host, settings.grpc_port)
    require_free("HTTP", settings.host, settings.http_port)


def _greet(settings: Settings, sockets: _Sockets) -> None:
    log.info(
        "listening",
        http=f"{settings.host}:{sockets.http.port}",
        grpc=f"{settings.host}:{sockets.grpc.port}",
        docs=f"http://{settings.host}:{sockets.http.port}/docs",
    )


def _why_nothing(settings: Settings) -> str:
    if settings.config is not None:
        return f"the configuration '{settings.config}' names no model to serve"
    if settings.model_repository is not None:
        return f"the model repository '{settings.model_repository}' has no model to serve"
    return "no models are named, expected a folder with --model-repository, or --allow-uploads"


def _watch(settings: Settings, server: Composition) -> Iterator[Coroutine[None, None, None]]:
    if settings.watch and settings.model_repository is not None:
        yield follow(changes_in(settings.model_repository), server.loader)
    if settings.watch and settings.config is not None:
        yield follow(changes_in_any(configured(settings, settings.config).folders), server.loader)


def _take_work(server: Composition, sockets: _Sockets) -> None:
    sockets.colleagues.have_come()
    server.services.health.begin()
    sockets.grpc.publish_readiness()
    statuses = server.catalogue.statuses()
    ready = sum(served.state is ModelState.READY for served in statuses)
    say = log.warning if statuses and not ready else log.info
    say("ready" if server.services.health.is_ready else "not ready", ready=ready, versions=len(statuses))
