"""Models: what the repository serves, and whichever a caller may run."""

from __future__ import annotations

from inferwire_server.core.job import Job
from inferwire_server.engine.catalogue import Catalogue, Served
from inferwire_server.engine.models import Model
from inferwire_server.errors import bug
from inferwire_server.service.uploads import UploadService
from inferwire_server.service.values import ServedModel, Target


class ModelService:
    """Finds models."""

    def __init__(self, catalogue: Catalogue, uploads: UploadService) -> None:
        self._catalogue = catalogue
        self._uploads = uploads

    def __repr__(self) -> str:
        return f"<ModelService: {self._catalogue!r}, {self._uploads!r}>"

    def find(self, name: str, version: str = "") -> Served:
        """Give a served model, ready or not.

        Raises:
            ServingError: MODEL_NOT_FOUND, or INVALID_INPUT for a version that is no number.
        """
        return self._catalogue.find(name, version)

    def versions(self, name: str) -> tuple[str, ...]:
        """Give the versions of a model that are ready, lowest first."""
        return self._catalogue.versions(name)

    def statuses(self) -> list[Served]:
        """List every version of every served model."""
        return self._catalogue.statuses()

    def resolve(self, target: Target) -> Model:
        """Give the model an inference runs on.

        Raises:
            ServingError: If there is none that takes jobs and is the caller's to use.
        """
        if isinstance(target, ServedModel):
            return self._catalogue.find(target.name, target.version).require()
        return self._uploads.resolve(target)

    def of(self, job: Job) -> Model:
        """Give the model a job was submitted to."""
        if not isinstance(job.model, Model):
            raise bug(f"{job!r} runs on no model of the engine")
        return job.model
