"""The composition root: builds the server from its settings, runs it, and ends it in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from secrets import token_hex

import structlog

from inferwire_server.core.ledger import JobLedger
from inferwire_server.core.sessions import Sessions
from inferwire_server.engine.backend import Backend, ModelOptions
from inferwire_server.engine.blobs import BlobStore
from inferwire_server.engine.catalogue import Catalogue
from inferwire_server.engine.models import Engine, QueueOptions
from inferwire_server.engine.repository import Entry, Repository, latest
from inferwire_server.metrics import Metrics
from inferwire_server.service import (
    DeviceService,
    HealthService,
    InferenceService,
    ModelService,
    Services,
    SessionService,
    UploadService,
)
from inferwire_server.service.health import Identity
from inferwire_server.service.inference import NamedJob
from inferwire_server.settings import MEBIBYTE, Settings, parse_properties

log = structlog.stdlib.get_logger()


def new_id() -> str:
    """Make a name nobody can guess."""
    return token_hex(8)


@dataclass(frozen=True, slots=True)
class Composition:
    """The server without its sockets."""

    services: Services
    catalogue: Catalogue
    metrics: Metrics
    entries: list[Entry]


@asynccontextmanager
async def compose(settings: Settings, backend: Backend) -> AsyncGenerator[Composition, None]:
    """Build everything behind the sockets, and close it afterwards.

    Raises:
        ServingError: INVALID_INPUT if the model repository is not there.
    """
    entries = _entries(settings)
    metrics = Metrics()
    blobs = BlobStore(settings.max_upload_mb * MEBIBYTE) if settings.allow_uploads else None
    queue = QueueOptions(settings.queue_capacity, settings.max_running)
    try:
        async with Engine(backend, queue, metrics) as engine, asyncio.TaskGroup() as tasks:
            metrics.watch(lambda: engine.devices)
            catalogue = Catalogue(engine, _model_options(settings))
            catalogue.expect(entries)
            services = _services(settings, engine, catalogue, blobs)
            reaper = tasks.create_task(services.sessions.reap())
            yield Composition(services, catalogue, metrics, entries)
            reaper.cancel()
    finally:
        if blobs is not None:
            blobs.close()


def _services(settings: Settings, engine: Engine, catalogue: Catalogue, blobs: BlobStore | None) -> Services:
    identity = Identity(settings.server_name, version("inferwire"), new_id())
    uploads = UploadService(engine, blobs, new_id)
    models = ModelService(catalogue, uploads)
    ledger: JobLedger[NamedJob] = JobLedger(new_id, settings.keep_jobs_s)
    return Services(
        health=HealthService(identity, catalogue, is_strict=settings.strict_readiness),
        inference=InferenceService(engine, models, ledger),
        models=models,
        uploads=uploads,
        sessions=SessionService(Sessions(new_id, settings.session_grace_s), uploads),
        devices=DeviceService(engine),
    )


def _entries(settings: Settings) -> list[Entry]:
    if settings.model_repository is None:
        return []
    entries = Repository(settings.model_repository).scan()
    return latest(entries) if settings.versions == "latest" else entries


def _model_options(settings: Settings) -> ModelOptions:
    return ModelOptions("", settings.device, parse_properties(settings.properties), settings.slots)
