"""Who the server is, and whether it takes work."""

from __future__ import annotations

from dataclasses import dataclass

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.repository.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class Identity:
    """What the server says of itself."""

    name: str
    version: str
    epoch: str


class HealthService:
    """Answers what orchestrators ask."""

    def __init__(self, identity: Identity, catalogue: Catalogue, *, is_strict: bool) -> None:
        self.identity = identity
        self._catalogue = catalogue
        self._is_strict = is_strict
        self._is_serving = False

    def __repr__(self) -> str:
        return (
            f"<HealthService {self.identity.name} {self.identity.version}: {'ready' if self.is_ready else 'not ready'}>"
        )

    @property
    def is_ready(self) -> bool:
        """Whether the server takes inferences.

        Strict readiness asks that no model of the repository has failed to load and is without a version that serves;
        otherwise such a model is not ready itself and leaves the server so.
        """
        return self._is_serving and not (self._is_strict and self._catalogue.has_failed)

    def begin(self) -> None:
        """The repository has been read: take work."""
        self._is_serving = True

    def end(self) -> None:
        """The server is shutting down: send no more work."""
        self._is_serving = False

    def is_model_ready(self, name: str, version: str = "") -> bool:
        """Whether a model takes inferences; a model nobody knows does not.

        Raises:
            ServingError: INVALID_INPUT for a version that is no number.
        """
        try:
            served = self._catalogue.find(name, version)
        except ServingError as error:
            if error.code is Code.MODEL_NOT_FOUND:
                return False
            raise
        return served.takes_jobs
