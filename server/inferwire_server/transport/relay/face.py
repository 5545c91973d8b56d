"""What a server shows its callers where it is one worker of several: behind each call is the whole crew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import grpc
from starlette.types import ASGIApp

from inferwire_server.transport.relay.colleagues import Colleagues
from inferwire_server.transport.relay.crew import Crew
from inferwire_server.transport.relay.http_calls import RelayedApp, crew_handler
from inferwire_server.transport.relay.routing import Routing
from inferwire_server.transport.relay.rpc_calls import RpcRelay
from inferwire_server.transport.rpc.methods import Around


@dataclass(frozen=True, slots=True)
class Face:
    """The HTTP application, what is around gRPC calls, and the gRPC calls that only the other workers make."""

    app: ASGIApp
    around: Around | None = None
    handlers: tuple[grpc.GenericRpcHandler, ...] = ()


def face_of(
    crew: Crew, app: ASGIApp, colleagues: Colleagues, stateful: Callable[[], frozenset[str]], max_body_bytes: int
) -> Face:
    """Put the crew behind an application and gRPC calls; nothing where there is but one worker.

    `stateful` names the models that keep states.
    """
    if crew.count == 1:
        return Face(app)
    routing = Routing(crew, colleagues, stateful)
    relayed = RelayedApp(app, routing, colleagues, max_body_bytes)
    return Face(relayed, RpcRelay(routing, colleagues).around, (crew_handler(app, colleagues, relayed),))
