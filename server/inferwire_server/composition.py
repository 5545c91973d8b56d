"""The composition: everything behind the sockets, built from the settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from secrets import token_hex
from time import monotonic, time

from inferwire_proto.properties import Properties
from inferwire_server import logs
from inferwire_server.core.api_keys import ApiKeys
from inferwire_server.core.bindings import BindingTerms
from inferwire_server.core.ledger import JobLedger, KeepingTerms
from inferwire_server.core.sessions import Sessions
from inferwire_server.core.versions import parse_version_policy
from inferwire_server.engine.api_key_file import read_api_keys
from inferwire_server.engine.backend import Backend, ModelOptions
from inferwire_server.engine.blobs import BlobLimits, BlobStore
from inferwire_server.engine.catalogue import Catalogue
from inferwire_server.engine.loader import Loader
from inferwire_server.engine.machine import free_temporary_bytes, memory_bytes
from inferwire_server.engine.model_server_config import ConfiguredRepository
from inferwire_server.engine.models import Engine, QueueOptions
from inferwire_server.engine.own_folder import remove_left_behind
from inferwire_server.engine.repository import Entry, Overrides, Repository
from inferwire_server.engine.shared_segments import SharedSegments
from inferwire_server.engine.tallies import Tallies
from inferwire_server.errors import invalid_input
from inferwire_server.metrics import Metrics
from inferwire_server.service import (
    AccessService,
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
from inferwire_server.service.refusals import Refusals
from inferwire_server.service.sequences import Sequences
from inferwire_server.service.tensors import TensorLimits
from inferwire_server.settings import MEBIBYTE, Settings, parse_properties


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
    settings: Settings,
    backend: Backend,
    clock: Callable[[], float] = monotonic,
    new_own_id: Callable[[], str] = new_id,
) -> AsyncGenerator[Composition, None]:
    """Build everything behind the sockets, and close it afterwards. Jobs are timed by `clock`, in seconds.

    What others than this process may be asked for has a name that `new_own_id` makes.

    Raises:
        ServingError: INVALID_INPUT if the model repository is not there, or for a setting that says nothing.
    """
    if settings.allow_imports and not settings.allow_uploads:
        raise invalid_input("--allow-imports is set without --allow-uploads, which it needs: a blob is uploaded first")
    if settings.cache_dir is not None:
        await asyncio.to_thread(_make_cache, settings.cache_dir)
    scan = _repository(settings)
    catalogue = Catalogue()
    catalogue.expect(await asyncio.to_thread(scan, {}))
    tallies = Tallies(catalogue.statuses, clock)
    metrics = Metrics(tallies)
    # What these give back is room for what comes.
    await asyncio.to_thread(remove_left_behind)
    blobs = BlobStore(_blob_limits(settings)) if settings.allow_uploads else None
    queue = QueueOptions(settings.queue_capacity, settings.max_running)
    try:
        async with (
            Engine(backend, queue, tallies.of, clock) as engine,
            Loader(engine, catalogue, scan, _model_options(settings)) as loader,
            asyncio.TaskGroup() as tasks,
        ):
            metrics.watch(lambda: engine.devices)
            metrics.watch_models(catalogue.statuses)
            uploads = UploadService(engine, blobs, new_id, _binding(settings), allows_imports=settings.allow_imports)
            control = ModelControl(loader, settings.allow_model_control, settings.watch)
            models = ModelService(catalogue, uploads, control, allows_exports=settings.allow_exports)
            statistics = StatisticsService(catalogue, tallies.of_version, lambda at: time() - clock() + at)
            ledger: JobLedger[NamedJob] = JobLedger(new_own_id, _keeping(settings))
            identity = Identity(settings.server_name, version("inferwire"), new_own_id())
            access = AccessService(await _api_keys(settings))
            services = _services(settings, access, identity, engine, catalogue, models, uploads, statistics, ledger)
            metrics.watch_results(lambda: ledger.kept)
            metrics.watch_refusals(lambda: services.refusals.counts)
            reaper = tasks.create_task(services.sessions.reap())
            yield Composition(engine, services, catalogue, loader, metrics)
            reaper.cancel()
            services.shared_memory.close()
    finally:
        if blobs is not None:
            blobs.close()


async def _api_keys(settings: Settings) -> ApiKeys | None:
    file = settings.api_key_file
    return None if file is None else await asyncio.to_thread(read_api_keys, file)


def _services(
    settings: Settings,
    access: AccessService,
    identity: Identity,
    engine: Engine,
    catalogue: Catalogue,
    models: ModelService,
    uploads: UploadService,
    statistics: StatisticsService,
    ledger: JobLedger[NamedJob],
) -> Services:
    sequences = Sequences(engine)
    tensors = TensorService(_tensor_limits(settings))
    segments = SharedSegments(settings.shared_memory) if settings.shared_memory else None
    shared_memory = SharedMemoryService(segments)
    return Services(
        access=access,
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
        refusals=Refusals(),
    )


def _repository(settings: Settings) -> Callable[[Overrides], list[Entry]]:
    if settings.config is not None:
        if settings.model_repository is not None:
            raise invalid_input(
                "--config and --model-repository are both set, expected one: each says what is served; a variable of "
                "the environment, as INFERWIRE_MODEL_REPOSITORY, does not count if it is empty"
            )
        return configured(settings, settings.config).served
    if settings.model_repository is None:
        return lambda _: []
    return Repository(settings.model_repository, parse_version_policy(settings.version_policy)).served


def _make_cache(folder: Path) -> None:
    """Make the folder of compiled models; one that is there may be one to read from alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise invalid_input(f"--cache-dir is '{folder}', which is no folder and cannot be made one: {error}") from error


def configured(settings: Settings, file: Path) -> ConfiguredRepository:
    """Read what another server's configuration file has served."""
    return ConfiguredRepository(file, parse_version_policy(settings.version_policy))


def _model_options(settings: Settings) -> ModelOptions:
    cache: Properties = {} if settings.cache_dir is None else {"CACHE_DIR": str(settings.cache_dir)}
    properties = cache | parse_properties(settings.properties)
    return ModelOptions("", settings.device, properties, settings.slots, binding=_binding(settings))


def _binding(settings: Settings) -> BindingTerms:
    return BindingTerms(settings.max_sequences, settings.sequence_idle_s, settings.sequences_wait)


def _keeping(settings: Settings) -> KeepingTerms:
    return KeepingTerms(settings.keep_jobs_s, settings.max_kept_results_mb * MEBIBYTE)


def _tensor_limits(settings: Settings) -> TensorLimits:
    """Say what sessions may keep. Where it depends on the machine, the workers share that."""
    of_all = settings.max_tensors_mb
    return TensorLimits(
        settings.max_session_tensors_mb * MEBIBYTE,
        memory_bytes() // 2 // settings.workers if of_all is None else of_all * MEBIBYTE,
    )


def _blob_limits(settings: Settings) -> BlobLimits:
    of_all = settings.max_uploads_mb
    return BlobLimits(
        settings.max_upload_mb * MEBIBYTE,
        free_temporary_bytes() * 9 // 10 // settings.workers if of_all is None else of_all * MEBIBYTE,
    )
