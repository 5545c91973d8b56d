"""The server from its start to its end: it starts its parts in order, works until it is stopped, and ends in order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import fields, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import structlog

from inferwire_server.composition import Composition, compose
from inferwire_server.core.version_states import VersionState
from inferwire_server.engine.backend import Backend
from inferwire_server.from_settings import check
from inferwire_server.host.control_groups import OWN_GROUPS
from inferwire_server.host.follow import follow
from inferwire_server.host.watch import changes_in
from inferwire_server.metrics.server import of_renewals, of_repository
from inferwire_server.renewals import Renewals
from inferwire_server.service import AccessService
from inferwire_server.settings import Settings
from inferwire_server.sockets import Sockets, listening, tls_of
from inferwire_server.transport.listening import authority
from inferwire_server.transport.tls import Tls
from inferwire_server.workers.followers import Followers, WorkerEnded
from inferwire_server.workers.processes import Workers
from inferwire_server.workers.role import Role
from inferwire_server.workers.socket_folder import socket_folder

log = structlog.stdlib.get_logger()

T = TypeVar("T")

_FLUSH_S = 1.0
"""How long after the grace the sockets stay, so that what was cancelled at its end is still answered."""


class End(NamedTuple):
    """How the serving of a process has ended.

    Attributes:
        has_stopped: Whether all that ran in it has stopped.
        is_whole: Whether no other process of the server had ended by itself.
    """

    has_stopped: bool
    is_whole: bool


async def serve(settings: Settings, backend: Backend, stop: asyncio.Event, workers: Workers, role: Role) -> End:
    """Serve until `stop` is set, or another of its processes has ended; then finish what runs within the grace period.

    It says that it is ready once all is loaded and its role lets it work.

    Raises:
        ExceptionGroup: Of all contradictions among the settings, before anything else is looked at.
        ServingError: INVALID_INPUT if what a setting names cannot be used.
        CannotListen: If a port cannot be opened.
    """
    check(settings)
    if workers.crew.is_lead:
        log.info("starting", version=version("inferwire"), openvino=backend.version, settings=_not_defaults(settings))
    async with (
        socket_folder(workers) as workers,
        Followers(workers, settings.drain_delay_s + settings.grace_s) as followers,
        AsyncExitStack() as composing,
    ):
        composed = composing.enter_async_context(
            compose(settings, backend, crew=workers.crew, cpus=workers.cpus(OWN_GROUPS.cpus))
        )
        server = await _unless(stop, composed)
        if server is None:
            log.info("stopped", cancelled=0)
            return End(has_stopped=True, is_whole=True)
        # Callers find a follower on the ports only when it takes what they send.
        if workers.crew.is_lead or await _unless(stop, server.loader.sync()) is not None:
            is_whole = await _serve_callers(settings, server, stop, followers, role)
        else:
            log.info("stopped", cancelled=0)
            is_whole = True
    return End(not server.engine.stuck, is_whole)


async def _serve_callers(
    settings: Settings, server: Composition, stop: asyncio.Event, followers: Followers, role: Role
) -> bool:
    """Open the ports, work, drain, and close them; say whether none of the other workers had ended before."""
    crew = followers.crew
    tls = await _unless(stop, asyncio.to_thread(tls_of, settings))
    if stop.is_set():
        log.info("stopped", cancelled=0)
        return True
    renewals = Renewals(settings, server.services.access, tls)
    server.metrics.add(lambda: of_renewals(renewals.refused, renewals.certificate_ends_at))
    if settings.watch:
        server.metrics.add(lambda: of_repository(is_readable=server.loader.is_readable))
    async with listening(settings, server, crew, tls) as sockets:
        followers.begin(replace(settings, grpc_port=sockets.grpc.port, http_port=sockets.http.port))
        server.catalogue.subscribe(sockets.grpc.publish_readiness)
        if crew.is_lead:
            _greet(settings, sockets, tls, server.services.access)

        async def work() -> None:
            await server.loader.sync()
            await followers.are_ready()
            await role.lets_work()
            followers.take_work()
            if crew.is_lead and not settings.allow_uploads and not server.catalogue.statuses():
                log.warning("nothing to serve", reason=server.repository.why_empty)
            _take_work(server, sockets)

        beside = (*_watch(settings, server), *renewals.follow(), followers.attend())
        is_whole = await _until(stop, (*beside, work()), followers)
        followers.stop()
        await _drain(server, sockets, followers, settings)
    return is_whole


async def _unless(stop: asyncio.Event, call: Coroutine[Any, Any, T]) -> T | None:
    """Await a call in this task; if `stop` is set before its end, cancel it and give None."""

    async def give_up() -> None:
        await stop.wait()
        limit.reschedule(asyncio.get_running_loop().time())

    limit = asyncio.timeout(None)
    try:
        async with limit:
            giving_up = asyncio.ensure_future(give_up())
            try:
                return await call
            finally:
                giving_up.cancel()
    except TimeoutError:
        if not limit.expired():
            raise
        return None


async def _until(stop: asyncio.Event, at_work: Iterable[Coroutine[None, None, None]], followers: Followers) -> bool:
    """Work until `stop` is set or another worker has ended by itself; say whether none has."""
    is_whole = True
    try:
        async with asyncio.TaskGroup() as group:
            # The watch begins first: what changes while the repository is being loaded is seen, too.
            tasks = [group.create_task(call) for call in (*at_work, followers.until_one_ends())]
            await stop.wait()
            for task in tasks:
                task.cancel()
    except* WorkerEnded as ended:
        log.error("cannot go on", reason=str(ended.exceptions[0]))
        is_whole = False
    return is_whole


async def _drain(server: Composition, sockets: Sockets, followers: Followers, settings: Settings) -> None:
    """Send work elsewhere, finish what runs, and only then close the ports: until then callers are told why.

    What each kind of connection meets in each step is in a table in docs/restarts.md. The gRPC port stays open until
    the followers have ended: calls that they answer together with this process come through it.
    """
    server.services.health.end()
    sockets.other_workers.may_leave()
    sockets.grpc.publish_readiness()
    sockets.grpc.part()
    sockets.http.part()
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


def _not_defaults(settings: Settings) -> dict[str, Any]:
    """Give what the operator has set, as texts and numbers."""
    given = ((field.name, getattr(settings, field.name), field.default) for field in fields(settings))
    return {name: _as_written(value) for name, value, default in given if value != default}


def _as_written(value: Any) -> Any:
    match value:
        case Path():
            return str(value)
        case tuple():
            return [str(each) for each in cast("tuple[object, ...]", value)]
        case _:
            return value


def _greet(settings: Settings, sockets: Sockets, tls: Tls | None, access: AccessService) -> None:
    scheme = "http" if tls is None else "https"
    http = authority(settings.host, sockets.http.port)
    log.info(
        "listening",
        http=http,
        grpc=authority(settings.host, sockets.grpc.port),
        docs=f"{scheme}://{http}/docs",
        tls=tls is not None,
        keys=access.needs_key,
    )


def _watch(settings: Settings, server: Composition) -> Iterator[Coroutine[None, None, None]]:
    if settings.watch:
        changes = partial(changes_in, server.repository.folders)
        yield follow(changes, server.loader.follow, "the repository cannot be read")


def _take_work(server: Composition, sockets: Sockets) -> None:
    sockets.other_workers.have_come()
    server.services.health.begin()
    sockets.grpc.publish_readiness()
    statuses = server.catalogue.statuses()
    ready = sum(served.takes_jobs for served in statuses)
    failed = sum(served.state is VersionState.FAILED for served in statuses)
    say = log.warning if failed or (statuses and not ready) else log.info
    event = "ready" if server.services.health.is_ready else "not ready"
    say(event, ready=ready, failed=failed, versions=len(statuses))
