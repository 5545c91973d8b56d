"""One look at a server: its metrics, devices and models, over HTTP."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from time import monotonic
from typing import Any

from inferwire.errors import InferwireError
from inferwire_cli.server_http import ServerHttp
from inferwire_cli.top.metrics_text import Metrics

TIMEOUT_S = 5.0

_MOST_BYTES = 64 << 20
"""The most that is read of an answer: the metrics of a thousand models are some MiB."""

_PATHS = ("/", "/inferwire/v1/devices", "/inferwire/v1/models", "/metrics")
"""What one look asks for: who the server is, its devices, its models and its metrics."""


@dataclass(frozen=True, slots=True)
class DeviceNow:
    """A device and its queue."""

    name: str
    running: int
    slots: int
    queued: int
    capacity: int


@dataclass(frozen=True, slots=True)
class ModelNow:
    """A version of a model."""

    name: str
    version: str
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """All that one look found, and when that was."""

    at_s: float
    server: str
    devices: tuple[DeviceNow, ...]
    models: tuple[ModelNow, ...]
    metrics: Metrics


def look(server: ServerHttp) -> Look:
    """Ask the server.

    Raises:
        ServerUnavailable: If no server answers.
        Unauthenticated: If it requires another key.
        InferwireError: If the server that answers is no inferwire server.
    """
    with closing(server.open(TIMEOUT_S)) as connection, server.told_where_missing():
        identity, devices, models, metrics = (_get(server, connection, path) for path in _PATHS)
    try:
        named = json.loads(identity)
        return Look(
            at_s=monotonic(),
            server=f"{named['name']} {named['version']}",
            devices=tuple(_device(each) for each in json.loads(devices)["devices"]),
            models=tuple(_model(each) for each in json.loads(models)["models"]),
            metrics=Metrics(metrics),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InferwireError(f"what answers at {server.address} is no inferwire server") from error


def _get(server: ServerHttp, connection: HTTPConnection, path: str) -> str:
    connection.request("GET", path, headers=server.headers)
    response = connection.getresponse()
    content = response.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise InferwireError(
            f"what answers at {server.address} is no inferwire server: {path} gave more than {_MOST_BYTES >> 20} MiB"
        )
    if response.status != 200:
        raise server.refusal(response.status, content)
    return content.decode(errors="replace")


def _device(said: dict[str, Any]) -> DeviceNow:
    return DeviceNow(said["name"], said["running"], said["slots"], said["queued"], said["queue_capacity"])


def _model(said: dict[str, Any]) -> ModelNow:
    return ModelNow(said["name"], said["version"], said["state"], said.get("reason", ""))
