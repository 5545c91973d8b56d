"""Who the server is, and whether it takes work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError, shutting_down
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
        self._why_not: Callable[[], ServingError] | None = _starting

    def __repr__(self) -> str:
        return (
            f"<HealthService {self.identity.name} {self.identity.version}: {'ready' if self.is_ready else 'not ready'}>"
        )

    @property
    def is_ready(self) -> bool:
        """Whether the server takes inferences.

        With strict readiness it takes none if a model of the repository has failed to load and has no version that
        serves. Without, such a model is not ready itself, and the server is.
        """
        return self._why_not is None and not (self._is_strict and self._catalogue.has_failed)

    def begin(self) -> None:
        """Say from now on that the server takes work: the repository has been read."""
        self._why_not = None

    def end(self) -> None:
        """Say from now on that the server takes no work: it is shutting down."""
        self._why_not = shutting_down

    def is_model_ready(self, name: str, version: str = "") -> bool:
        """Whether callers are to send a model inferences; an unknown model is not ready.

        Raises:
            ServingError: INVALID_INPUT for a version that is no number.
        """
        try:
            self.require_model(name, version)
        except ServingError as error:
            if error.code is Code.INVALID_INPUT:
                raise
            return False
        return True

    def require_model(self, name: str, version: str = "") -> None:
        """Refuse a model that is not ready. No model is before the server takes work, or once it is shutting down.

        Strict readiness concerns the server alone: a model that has failed makes no other model unready.

        Raises:
            ServingError: MODEL_NOT_FOUND, INVALID_INPUT for a version that is no number, MODEL_FAILED,
                MODEL_NOT_READY, or SHUTTING_DOWN.
        """
        self._catalogue.find(name, version).require()
        if self._why_not is not None:
            raise self._why_not()


def _starting() -> ServingError:
    return ServingError(Code.MODEL_NOT_READY, "the server is starting", retry_after_s=1.0)
