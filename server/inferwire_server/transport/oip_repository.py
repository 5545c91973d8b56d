"""The Open Inference Protocol's model repository extension: what both of its faces share.

It knows neither protobuf nor JSON.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.service import Services
from inferwire_server.service.models import Served

_STATES = {"ready": "READY", "loading": "LOADING", "warming": "LOADING", "draining": "UNLOADING"}
_LOAD_FAILURES = (Code.MODEL_NOT_FOUND, Code.MODEL_FAILED)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One version of a model in the repository."""

    name: str
    version: str
    state: str
    reason: str


def index(services: Services, *, ready_only: bool) -> list[IndexEntry]:
    """List what the repository holds."""
    entries = [_entry(served) for served in services.models.statuses()]
    return [entry for entry in entries if not ready_only or entry.state == "READY"]


def _entry(served: Served) -> IndexEntry:
    state = served.state.value
    reason = served.reason or ("unloaded" if state == "unloaded" else "")
    return IndexEntry(served.name, served.version, _STATES.get(state, "UNAVAILABLE"), reason)


async def load(services: Services, name: str, parameters: Collection[str]) -> None:
    """Load or reload a model. Its failure is internal to the server, as the protocol's clients expect.

    Raises:
        ServingError: INTERNAL with the reason, PERMISSION_DENIED, or UNIMPLEMENTED for a parameter.
    """
    if parameters:
        raise ServingError(
            Code.UNIMPLEMENTED,
            f"load of model '{name}' has parameter '{min(parameters)}', expected none: "
            "its settings stand in the inferwire.toml beside it",
        )
    try:
        await services.models.load(name)
    except ServingError as error:
        if error.code in _LOAD_FAILURES:
            raise ServingError(Code.INTERNAL, error.message) from error
        raise


async def unload(services: Services, name: str) -> None:
    """Unload a model; one that is not known is unloaded already.

    Raises:
        ServingError: PERMISSION_DENIED.
    """
    await services.models.unload(name)
