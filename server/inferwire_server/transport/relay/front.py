"""Puts the whole crew behind a worker's calls: wraps its HTTP application and its gRPC calls in what relays them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from google.protobuf.descriptor import MethodDescriptor
from starlette.types import ASGIApp

from inferwire_server.crew import Crew
from inferwire_server.service import Services
from inferwire_server.transport.relay.http_calls import CREW_CALL, RelayedApp, crew_call
from inferwire_server.transport.relay.other_workers import OtherWorkers
from inferwire_server.transport.relay.routing import Routing
from inferwire_server.transport.relay.rpc_calls import RpcRelay
from inferwire_server.transport.relay.session_calls import SessionRelay
from inferwire_server.transport.rpc.methods import Around, RawCall


@dataclass(frozen=True, slots=True)
class CrewFront:
    """The HTTP application, what is around gRPC calls, and gRPC calls that only the other workers make."""

    app: ASGIApp
    around: Around | None = None
    calls: Mapping[str, RawCall] = field(default_factory=dict[str, RawCall])


def front_of(
    crew: Crew, app: ASGIApp, other_workers: OtherWorkers, services: Services, max_body_bytes: int
) -> CrewFront:
    """Put the crew behind an application and gRPC calls; change nothing if there is only one worker."""
    if crew.count == 1:
        return CrewFront(app)
    routing = Routing(crew, other_workers, lambda: services.models.stateful, services.gil_thread)
    relayed = RelayedApp(app, routing, other_workers, services.refusals, max_body_bytes)
    rpc, sessions = RpcRelay(routing, other_workers), SessionRelay(crew, other_workers)

    def around(method: MethodDescriptor, call: RawCall) -> RawCall:
        return rpc.around(method, sessions.around(method, call))

    return CrewFront(relayed, around, {CREW_CALL: crew_call(app, other_workers, relayed)})
