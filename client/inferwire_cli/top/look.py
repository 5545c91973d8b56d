"""One look at a server: its metrics and what it says of its devices and models, over HTTP."""

from __future__ import annotations

import json
import socket
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from threading import Timer
from time import monotonic
from typing import Any

from inferwire.errors import InferwireError, ServerUnavailable
from inferwire_cli.server_http import UNAUTHENTICATED, ServerHttp
from inferwire_cli.top.metrics_text import Metrics

TIMEOUT_S = 5.0
"""How long a server may say nothing."""

WHOLE_S = 30.0
"""How long all that it says may take: one that goes on saying a little would be listened to for ever."""

_MOST_BYTES = 64 << 20
"""More than a server says of itself: the metrics of a thousand models are some MiB."""

_PATHS = ("/", "/inferwire/v1/devices", "/inferwire/v1/models", "/metrics")
"""What one look asks for: who the server is, its devices, its models and its metrics."""


@dataclass(frozen=True, slots=True)
class DeviceNow:
    """A device and its queue."""

    name: str
    full_name: str
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
    """All that one look saw, and when that was."""

    at_s: float
    server: str
    devices: tuple[DeviceNow, ...]
    models: tuple[ModelNow, ...]
    metrics: Metrics


def look(server: ServerHttp, whole_s: float = WHOLE_S) -> Look:
    """Ask the server, which may take so long for all that it says.

    Raises:
        ServerUnavailable: If nobody answers, or not in time.
        Unauthenticated: If it wants another key.
        InferwireError: If it is no inferwire server that does.
    """
    with (
        closing(server.open(TIMEOUT_S)) as connection,
        _Limit(whole_s, server) as limit,
        server.told_where_missing(),
    ):
        identity, devices, models, metrics = (_get(server, connection, path, limit) for path in _PATHS)
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


class _Limit:
    """Ends what one look reads once all of it has taken too long, within `with`.

    Raises:
        ServerUnavailable: In place of whatever comes of that.
    """

    def __init__(self, whole_s: float, server: ServerHttp) -> None:
        self._late = ServerUnavailable(f"what answers at {server.address} has not said all within {whole_s:g} s")
        self._is_over = False
        self._socket: socket.socket | None = None
        self._timer = Timer(whole_s, self._end)
        self._timer.daemon = True

    def __enter__(self) -> _Limit:
        self._timer.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._timer.cancel()
        if self._is_over and (error is None or isinstance(error, InferwireError)):
            raise self._late from error

    def check(self) -> None:
        """Ask for nothing more once it is over: what is read until its end may look whole."""
        if self._is_over:
            raise self._late

    def holds_for(self, connection: HTTPConnection) -> None:
        """End what is asked on now: a connection opens another socket where the server has closed one."""
        self._socket = connection.sock
        if self._is_over:
            self._end()

    def _end(self) -> None:
        self._is_over = True
        if self._socket is not None:
            with suppress(OSError):
                # That of TLS would take from who reads what it reads with.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def _get(server: ServerHttp, connection: HTTPConnection, path: str, limit: _Limit) -> str:
    limit.check()
    connection.request("GET", path, headers=server.headers)
    limit.holds_for(connection)
    response = connection.getresponse()
    content = response.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise InferwireError(
            f"what answers at {server.address} is no inferwire server: {path} gave more than {_MOST_BYTES >> 20} MiB"
        )
    if response.status == UNAUTHENTICATED:
        raise server.refusal(response.status, content)
    if response.status != 200:
        raise InferwireError(f"what answers at {server.address} is no inferwire server: {path} gave {response.status}")
    return content.decode(errors="replace")


def _device(said: dict[str, Any]) -> DeviceNow:
    return DeviceNow(
        said["name"], said["full_name"], said["running"], said["slots"], said["queued"], said["queue_capacity"]
    )


def _model(said: dict[str, Any]) -> ModelNow:
    return ModelNow(said["name"], said["version"], said["state"], said.get("reason", ""))
