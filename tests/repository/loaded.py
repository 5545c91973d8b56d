"""Models that a repository's loader reads on a runtime."""

from __future__ import annotations

from pathlib import Path

from structlog.testing import capture_logs

from inferwire_server.core.model_options import ModelOptions
from inferwire_server.core.versions import Latest
from inferwire_server.engine.backend import Backend
from inferwire_server.engine.engine import Engine, QueueOptions
from inferwire_server.repository.catalogue import Catalogue
from inferwire_server.repository.folder import Repository
from inferwire_server.repository.loader import Loader
from inferwire_server.tallies import Tallies


async def reason_of(backend: Backend, root: Path, options: ModelOptions) -> str:
    """Load the only model of a repository, and give why that failed."""
    catalogue = Catalogue()
    with capture_logs():
        async with (
            Engine(backend, QueueOptions(), Tallies().of) as engine,
            Loader(engine, catalogue, Repository(root, Latest()).served, options) as loader,
        ):
            await loader.sync()
            (served,) = catalogue.statuses()
            return served.reason
