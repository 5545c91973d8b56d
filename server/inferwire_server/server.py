"""The composition root: builds the server from its settings, runs it, and ends it in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from secrets import token_hex
from time import monotonic, time

import structlog

from inferwire_proto.properties import Properties
from inferwire_server import logs
from inferwire_server.core.bindings import BindingTerms
from inferwire_server.core.ledger import JobLedger
from inferwire_server.core.model_states import ModelState
from inferwire_server.core.sessions import Sessions
from inferwire_server.core.versions import parse_version_policy
from inferwire_server.engine.backend import Backend, ModelOptions
from inferwire_server.engine.blobs import BlobStore
from inferwire_server.engine.catalogue import Catalogue
from inferwire_server.engine.loader import Loader
from inferwire_server.engine.model_server_config import ConfiguredRepository
from inferwire_server.engine.models import Engine, QueueOptions
from inferwire_server.engine.repository import Entry, Overrides, Repository
from inferwire_server.engine.shared_segments import SharedSegments
from inferwire_server.engine.watch import changes_in, changes_in_any, follow
from inferwire_server.errors import invalid_input
from inferwire_server.metrics import Metrics
from inferwire_server.service import (
    DeviceService,
    HealthService,
    InferenceService,
    LogService,
    ModelService,
    Services,
    SessionService,
    SharedMemoryService,
    StatisticsService,
    TensorService,
    UploadService,
)
from inferwire_server.service.health import Identity
from inferwire_server.service.inference import NamedJob
from inferwire_server.service.logs import LogControl
from inferwire_server.service.models import ModelControl
from inferwire_server.service.sequences import Sequences
from inferwire_server.settings import MEBIBYTE, Settings, parse_properties
from inferwire_server.transport.rest.app import create_app
from inferwire_server.transport.rest.http_server import http_server
from inferwire_server.transport.rest.options import RestOptions
from inferwire_server.transport.rpc.grpc_server import GrpcOptions, GrpcServer

log = structlog.stdlib.get_logger()


_FLUSH_S = 1.0
"""How long after the grace the sockets stay, so that what was cancelled at its end is still answered."""


async def serve(settings: Settings, backend: Backend, stop: asyncio.Event) -> bool:
    """Serve until `stop` is set, then finish what runs within the grace period; say whether all of it stopped.

    Raises:
        ServingError: INVALID_INPUT for settings that cannot be served.
        CannotListen: If a port cannot be opened.
    """
    rpc = GrpcOptions(settings.host, settings.grpc_port, settings.max_grpc_message_mb * MEBIBYTE, settings.grpc_socket)
    rest = RestOptions(settings.max_http_body_mb * MEBIBYTE)
    async with (
        compose(settings, backend) as server,
        GrpcServer(server.services, rpc) as grpc_server,
        http_server(create_app(server.services, rest, server.metrics.text), settings.host, settings.http_port) as http,
    ):
        server.catalogue.subscribe(grpc_server.publish_readiness)
        if settings.model_repository is None and settings.config is None and not settings.allow_uploads:
            log.warning("nothing to serve", remedy="name a folder with --model-repository, or --allow-uploads")
        log.info(
            "listening",
            http=f"{settings.host}:{http.port}",
            grpc=f"{settings.host}:{grpc_server.port}",
            docs=f"http://{settings.host}:{http.port}/docs",
        )
        async with asyncio.TaskGroup() as tasks:
            # The watch begins first: what changes while the repository is being loaded is seen, too.
            at_work = [tasks.create_task(call) for call in (*_watch(settings, server), _load(server, grpc_server))]
            await stop.wait()
            for task in at_work:
                task.cancel()
        server.services.health.end()
        grace_s = settings.grace_s
        cancelled, *_ = await asyncio.gather(
            server.services.inference.drain(grace_s),
            grpc_server.drain(grace_s + _FLUSH_S),
            http.drain(grace_s + _FLUSH_S),
        )
        log.info("stopped", cancelled=cancelled)
    return not server.engine.stuck


def _watch(settings: Settings, server: Composition) -> Iterator[Coroutine[None, None, None]]:
    if settings.watch and settings.model_repository is not None:
        yield follow(changes_in(settings.model_repository), server.loader)
    if settings.watch and settings.config is not None:
        yield follow(changes_in_any(_configured(settings, settings.config).folders), server.loader)


async def _load(server: Composition, grpc_server: GrpcServer) -> None:
    """Load the repository, then take work."""
    await server.loader.sync()
    server.services.health.begin()
    grpc_server.publish_readiness()
    statuses = server.catalogue.statuses()
    ready = sum(served.state is ModelState.READY for served in statuses)
    say = log.warning if statuses and not ready else log.info
    say("ready" if server.services.health.is_ready else "not ready", ready=ready, versions=len(statuses))


def new_id() -> str:
    """Make a name nobody can guess."""
    return token_hex(8)


@dataclass(frozen=True, slots=True)
class Composition:
    """The server without its sockets."""

    engine: Engine
    services: Services
    catalogue: Catalogue
    loader: Loader
    metrics: Metrics


@asynccontextmanager
async def compose(
    settings: Settings, backend: Backend, clock: Callable[[], float] = monotonic
) -> AsyncGenerator[Composition, None]:
    """Build everything behind the sockets, and close it afterwards. Jobs are timed by `clock`, in seconds.

    Raises:
        ServingError: INVALID_INPUT if the model repository is not there, or for a setting that says nothing.
    """
    if settings.allow_imports and not settings.allow_uploads:
        raise invalid_input("--allow-imports is set without --allow-uploads, which it needs: a blob is uploaded first")
    scan = _repository(settings)
    catalogue = Catalogue()
    catalogue.expect(await asyncio.to_thread(scan, {}))
    metrics = Metrics()
    blobs = BlobStore(settings.max_upload_mb * MEBIBYTE) if settings.allow_uploads else None
    queue = QueueOptions(settings.queue_capacity, settings.max_running)
    try:
        async with (
            Engine(backend, queue, metrics, clock) as engine,
            Loader(engine, catalogue, scan, _model_options(settings)) as loader,
            asyncio.TaskGroup() as tasks,
        ):
            metrics.watch(lambda: engine.devices)
            uploads = UploadService(engine, blobs, new_id, _binding(settings), allows_imports=settings.allow_imports)
            control = ModelControl(loader, settings.allow_model_control, settings.watch)
            models = ModelService(catalogue, uploads, control, allows_exports=settings.allow_exports)
            statistics = StatisticsService(catalogue, metrics.tallies, lambda at: time() - clock() + at)
            services = _services(settings, engine, catalogue, models, uploads, statistics)
            reaper = tasks.create_task(services.sessions.reap())
            yield Composition(engine, services, catalogue, loader, metrics)
            reaper.cancel()
            services.shared_memory.close()
    finally:
        if blobs is not None:
            blobs.close()


def _services(
    settings: Settings,
    engine: Engine,
    catalogue: Catalogue,
    models: ModelService,
    uploads: UploadService,
    statistics: StatisticsService,
) -> Services:
    identity = Identity(settings.server_name, version("inferwire"), new_id())
    ledger: JobLedger[NamedJob] = JobLedger(new_id, settings.keep_jobs_s)
    sequences = Sequences(engine)
    tensors = TensorService(settings.max_session_tensors_mb * MEBIBYTE)
    segments = SharedSegments(settings.shared_memory) if settings.shared_memory else None
    shared_memory = SharedMemoryService(segments)
    return Services(
        health=HealthService(identity, catalogue, is_strict=settings.strict_readiness),
        inference=InferenceService(engine, models, sequences, tensors, shared_memory, ledger),
        models=models,
        uploads=uploads,
        sessions=SessionService(Sessions(new_id, settings.session_grace_s), uploads, sequences, tensors),
        tensors=tensors,
        shared_memory=shared_memory,
        devices=DeviceService(engine),
        statistics=statistics,
        logs=LogService(LogControl(logs.level, logs.set_level, settings.allow_log_settings)),
    )


def _repository(settings: Settings) -> Callable[[Overrides], list[Entry]]:
    if settings.config is not None:
        if settings.model_repository is not None:
            raise invalid_input("--config and --model-repository are both set, expected one: each says what is served")
        return _configured(settings, settings.config).served
    if settings.model_repository is None:
        return lambda _: []
    return Repository(settings.model_repository, parse_version_policy(settings.version_policy)).served


def _configured(settings: Settings, file: Path) -> ConfiguredRepository:
    return ConfiguredRepository(file, parse_version_policy(settings.version_policy))


def _model_options(settings: Settings) -> ModelOptions:
    cache: Properties = {} if settings.cache_dir is None else {"CACHE_DIR": str(settings.cache_dir)}
    properties = cache | parse_properties(settings.properties)
    return ModelOptions("", settings.device, properties, settings.slots, binding=_binding(settings))


def _binding(settings: Settings) -> BindingTerms:
    return BindingTerms(settings.max_sequences, settings.sequence_idle_s, settings.sequences_wait)
