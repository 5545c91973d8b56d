"""The composition: everything behind the sockets, built from the settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from secrets import token_hex
from time import monotonic, time
from typing import TYPE_CHECKING

import structlog

from inferwire_server import logs
from inferwire_server.core.api_keys import ApiKeys
from inferwire_server.core.ledger import JobLedger
from inferwire_server.core.sessions import Sessions
from inferwire_server.crew import ALONE, Crew
from inferwire_server.engine.backend import Backend
from inferwire_server.engine.engine import Engine, QueueOptions
from inferwire_server.errors import invalid_input
from inferwire_server.from_settings import (
    AnyRepository,
    batch_options,
    blob_limits,
    busy_poll_s,
    keeping_terms,
    model_options,
    most_queued_bytes,
    repository_of,
    tensor_limits,
    uploaded_model_options,
)
from inferwire_server.gil_thread import GilThread
from inferwire_server.host.api_key_file import read_api_keys
from inferwire_server.host.blobs import BlobStore
from inferwire_server.host.own_folder import temporary_files_for
from inferwire_server.host.shared_segments import SharedSegments
from inferwire_server.metrics.callers import of_refusals, of_results, of_sessions, of_storage
from inferwire_server.metrics.jobs import of_tallies
from inferwire_server.metrics.load import of_occupancies
from inferwire_server.metrics.scraping import Metrics
from inferwire_server.metrics.server import of_build, of_models, of_polling
from inferwire_server.repository.catalogue import Catalogue
from inferwire_server.repository.entries import as_utf8
from inferwire_server.repository.loader import Loader
from inferwire_server.service import (
    AccessService,
    DeviceService,
    HealthService,
    InferenceService,
    JobService,
    LogService,
    ModelService,
    Services,
    SessionService,
    SharedMemoryService,
    StatisticsService,
    TensorService,
    UploadService,
)
from inferwire_server.service.busy_polling import BusyPolling
from inferwire_server.service.health import Identity
from inferwire_server.service.models import ModelControl
from inferwire_server.service.refusals import Refusals
from inferwire_server.service.sequences import Sequences
from inferwire_server.settings import Settings
from inferwire_server.tallies import Tallies

if TYPE_CHECKING:
    from inferwire_server.traces import Traces

log = structlog.stdlib.get_logger()


def new_id() -> str:
    """Make a name that cannot be guessed."""
    return token_hex(8)


@dataclass(frozen=True, slots=True)
class Composition:
    """The server without its sockets."""

    engine: Engine
    services: Services
    repository: AnyRepository
    catalogue: Catalogue
    loader: Loader
    metrics: Metrics
    traces: Traces | None


@dataclass(frozen=True, slots=True)
class _Parts:
    """What services are built on: where models run, where they come from, and what callers leave and show."""

    engine: Engine
    loader: Loader
    catalogue: Catalogue
    tallies: Tallies
    blobs: BlobStore | None
    keys: ApiKeys | None
    gil_thread: GilThread


@asynccontextmanager
async def compose(
    settings: Settings,
    backend: Backend,
    clock: Callable[[], float] = monotonic,
    crew: Crew = ALONE,
    cpus: float = 1,
) -> AsyncGenerator[Composition, None]:
    """Build everything behind the sockets, and close it afterwards. Jobs are timed by `clock`, in seconds.

    The crew makes the names that any worker of the server may be asked for: of jobs, of sessions, and of this process.
    Its lead alone warns of folders without models, which are the same for all workers. `cpus` is how many CPUs' time
    this process may have.

    Raises:
        ServingError: INVALID_INPUT if the model repository is not there, or a setting names what cannot be used.
    """
    if settings.cache_dir is not None:
        await asyncio.to_thread(_make_cache, settings.cache_dir)
    repository = repository_of(settings, warns=crew.is_lead)
    if repository.source:
        # Said before: if the file system does not answer, nothing else would say what the server waits for.
        log.info("reading the models", source=as_utf8(str(repository.source)))
    catalogue = Catalogue()
    catalogue.expect(await asyncio.to_thread(repository.served))
    tallies = Tallies(catalogue.statuses, clock)
    blobs = await asyncio.to_thread(_blob_store, settings) if settings.allow_uploads else None
    queue = QueueOptions(settings.queue_capacity, settings.max_running, most_queued_bytes(settings))
    identity = Identity(settings.server_name, version("inferwire"), crew.new_id())
    try:
        async with (
            GilThread() as gil_thread,
            _sending_traces(identity, clock) if settings.traces else nullcontext() as traces,
            Engine(backend, queue, tallies.of, clock, None if traces is None else traces.current) as engine,
            Loader(engine, catalogue, repository.served, model_options(settings), batch_options(settings)) as loader,
            asyncio.TaskGroup() as tasks,
        ):
            parts = _Parts(engine, loader, catalogue, tallies, blobs, await _api_keys(settings), gil_thread)
            polling = BusyPolling(busy_poll_s(settings, cpus), clock)
            services = _services(settings, identity, parts, polling, clock, crew.new_id)
            metrics = _metrics(parts, services)
            reaper = tasks.create_task(services.sessions.reap())
            yield Composition(engine, services, repository, catalogue, loader, metrics, traces)
            reaper.cancel()
            services.shared_memory.unregister()
    finally:
        if blobs is not None:
            blobs.close()


async def _api_keys(settings: Settings) -> ApiKeys | None:
    file = settings.api_key_file
    return None if file is None else await asyncio.to_thread(read_api_keys, file)


@asynccontextmanager
async def _sending_traces(identity: Identity, clock: Callable[[], float]) -> AsyncGenerator[Traces, None]:
    """Send traces of what is done inside.

    Raises:
        ServingError: INVALID_INPUT if what sends them is not installed, or cannot be set up.
    """
    try:
        from inferwire_server.traces import Traces
    except ModuleNotFoundError as error:
        raise invalid_input(
            f"--traces is set, and {error.name} is not installed: install the extra inferwire[traces], or build the "
            "image with --build-arg EXTRAS=server,traces"
        ) from error
    traces = Traces(identity, clock)
    try:
        yield traces
    finally:
        await traces.close()


def _services(
    settings: Settings,
    identity: Identity,
    parts: _Parts,
    polling: BusyPolling,
    clock: Callable[[], float],
    new_own_id: Callable[[], str],
) -> Services:
    """Build all services."""
    engine, catalogue = parts.engine, parts.catalogue
    defaults = uploaded_model_options(settings)
    uploads = UploadService(engine, parts.blobs, new_id, defaults, allows_imports=settings.allow_imports)
    control = ModelControl(parts.loader, settings.allow_model_control, settings.watch)
    models = ModelService(catalogue, uploads, control, engine.reading, allows_exports=settings.allow_exports)
    sequences = Sequences()
    tensors = TensorService(tensor_limits(settings))
    segments = SharedSegments(settings.shared_memory) if settings.shared_memory else None
    shared_memory = SharedMemoryService(segments)
    inference = InferenceService(engine, models, sequences, tensors, shared_memory, polling)
    return Services(
        access=AccessService(parts.keys),
        health=HealthService(identity, catalogue, is_strict=settings.strict_readiness),
        inference=inference,
        jobs=JobService(inference, JobLedger(new_own_id, keeping_terms(settings))),
        models=models,
        uploads=uploads,
        sessions=SessionService(Sessions(new_own_id, settings.session_grace_s), uploads, sequences, tensors),
        tensors=tensors,
        shared_memory=shared_memory,
        devices=DeviceService(engine),
        statistics=StatisticsService(catalogue, parts.tallies, lambda at: time() - clock() + at),
        logs=LogService(logs.level, logs.set_level, is_allowed=settings.allow_log_settings),
        refusals=Refusals(),
        gil_thread=parts.gil_thread,
        is_tracing=settings.traces,
    )


def _metrics(parts: _Parts, services: Services) -> Metrics:
    """Have every metric read what it shows."""
    return Metrics(
        parts.gil_thread,
        lambda: of_tallies(parts.tallies),
        lambda: of_build(services.health.identity.version, parts.engine.backend.version),
        lambda: of_occupancies(parts.engine.devices),
        lambda: of_models(parts.catalogue.statuses()),
        lambda: of_results(services.jobs.kept),
        lambda: of_sessions(services.sessions.count, services.uploads.compiled),
        lambda: of_storage(services.tensors.taken, services.uploads.taken),
        lambda: of_refusals(services.refusals.counts),
        lambda: of_polling(services.inference.polled_s),
    )


def _blob_store(settings: Settings) -> BlobStore:
    """Make the store of clients' uploads."""
    with temporary_files_for("--allow-uploads"):
        return BlobStore(blob_limits(settings))


def _make_cache(folder: Path) -> None:
    """Make the folder of compiled models, if it is not there. One that is there may be read-only."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise invalid_input(f"--cache-dir is '{folder}', which is no folder and cannot be made one: {error}") from error
