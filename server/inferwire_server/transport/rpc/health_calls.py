"""grpc.health.v1: what load balancers and orchestrators watch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NoReturn

from grpc_health.v1 import health_pb2 as pb

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.service import HealthService
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.rpc.context import Context

_SERVING = pb.HealthCheckResponse.SERVING
_NOT_SERVING = pb.HealthCheckResponse.NOT_SERVING
_UNKNOWN = pb.HealthCheckResponse.SERVICE_UNKNOWN


class HealthCalls:
    """Answers the calls of Health, for the server as a whole and for each of its services."""

    def __init__(self, health: HealthService, drain: Drain, services: Iterable[str]) -> None:
        self._health = health
        self._drain = drain
        self._services = frozenset(("", *services))
        self._watchers: set[asyncio.Event] = set()

    def __repr__(self) -> str:
        return f"<HealthCalls: {'serving' if self._is_serving else 'not serving'}, {len(self._watchers)} watchers>"

    def publish(self) -> None:
        """Have watchers check the health again."""
        for watcher in self._watchers:
            watcher.set()

    async def check(self, request: pb.HealthCheckRequest, _: Context) -> pb.HealthCheckResponse:
        """Say whether a service takes calls now."""
        if request.service not in self._services:
            raise ServingError(Code.MODEL_NOT_FOUND, f"service '{request.service}' is not offered by this server")
        return pb.HealthCheckResponse(status=self._status(request.service))

    async def list(self, *_: object) -> NoReturn:
        """Refuse a call that only newer packages describe."""
        sentence = "this server does not list the health of its services; check each by its name"
        raise ServingError(Code.UNIMPLEMENTED, sentence)

    async def watch(self, request: pb.HealthCheckRequest, context: Context) -> None:
        """Say whether a service takes calls, now and whenever it changes, until the server drains."""
        watcher = asyncio.Event()
        self._watchers.add(watcher)
        last: pb.HealthCheckResponse.ServingStatus.ValueType | None = None
        try:
            with self._drain.notifying(watcher.set):
                while True:
                    status = self._status(request.service)
                    if status != last:
                        await context.write(pb.HealthCheckResponse(status=status).SerializeToString())
                        last = status
                    if self._drain.is_draining:
                        return
                    await watcher.wait()
                    watcher.clear()
        finally:
            self._watchers.discard(watcher)

    @property
    def _is_serving(self) -> bool:
        return self._health.is_ready and not self._drain.is_draining

    def _status(self, service: str) -> pb.HealthCheckResponse.ServingStatus.ValueType:
        if service not in self._services:
            return _UNKNOWN
        return _SERVING if self._is_serving else _NOT_SERVING
