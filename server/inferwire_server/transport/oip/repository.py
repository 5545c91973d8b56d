"""The Open Inference Protocol's model repository extension: what both of its interfaces share.

It knows neither protobuf nor JSON; `override` reads the configuration that a load may bring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferwire_proto.errors import Code
from inferwire_proto.openvino_errors import without_places
from inferwire_server.core.version_states import VersionState
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service import Services
from inferwire_server.service.models import Served
from inferwire_server.transport.oip.override import read_override

STATES = {
    VersionState.LOADING: "LOADING",
    VersionState.WARMING: "LOADING",
    VersionState.READY: "READY",
    VersionState.DRAINING: "UNLOADING",
    VersionState.UNLOADED: "UNAVAILABLE",
    VersionState.FAILED: "UNAVAILABLE",
}
"""What is told of a version that takes no jobs; one that does is READY, whatever it is doing."""

_LOAD_FAILURES = {Code.MODEL_NOT_FOUND: Code.INTERNAL, Code.MODEL_FAILED: Code.INVALID_INPUT}
"""The codes under whose status Triton's clients expect a load's failures. A 500 is what proxies send again."""


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
    reason = served.reason or ("unloaded" if served.state is VersionState.UNLOADED else "")
    told = "READY" if served.takes_jobs else STATES[served.state]
    return IndexEntry(served.name, served.version, told, without_places(reason))


async def load(services: Services, name: str, parameters: Mapping[str, object]) -> None:
    """Load or reload a model. A failure has the status that it has in Triton, which its clients expect.

    Raises:
        ServingError: MODEL_NOT_FOUND or MODEL_FAILED with the reason, PERMISSION_DENIED, or INVALID_INPUT or
            UNIMPLEMENTED for a parameter.
    """
    settings = _settings(services, name, parameters)
    try:
        await services.models.load(name, settings)
    except ServingError as error:
        raise error.copy(status=_LOAD_FAILURES.get(error.code)) from error


def _settings(services: Services, name: str, parameters: Mapping[str, object]) -> dict[str, Any]:
    """Read what a load asks for beside the model's own settings."""
    for parameter in sorted(parameters):
        if parameter.startswith("file:"):
            raise ServingError(
                Code.UNIMPLEMENTED,
                f"the load of model '{name}' brings the file '{parameter.removeprefix('file:')}', expected none: "
                "a model's files are those of the repository",
            )
        if parameter != "config":
            raise ServingError(
                Code.UNIMPLEMENTED, f"the load of model '{name}' has parameter '{parameter}', expected config or none"
            )
    config = parameters.get("config", "")
    if not isinstance(config, str):
        raise invalid_input(f"parameter 'config' of the load of model '{name}' is {config!r}, expected a string")
    models = services.models
    return read_override(config, name, models.ready(name), models.brought(name)) if config else {}
