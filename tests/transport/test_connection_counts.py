"""How many connections are open, as the metrics tell it, on the ports of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from dataclasses import replace

from tests.transport.session.carriers import SocketStream
from tests.waiting import until

from inferwire_server.composition import Composition
from inferwire_server.crew import ALONE
from inferwire_server.settings import Settings
from inferwire_server.sockets import listening


def counted(composition: Composition) -> dict[str, float]:
    (family,) = (each for each in composition.metrics.scrape().collect() if each.name == "inferwire_connections")
    return {sample.labels["kind"]: sample.value for sample in family.samples}


async def test_each_is_counted_by_what_is_spoken_on_it_for_as_long_as_it_is_open(
    composition: Composition, settings: Settings
) -> None:
    def are(grpc: int, http: int, session: int) -> Callable[[], bool]:
        return lambda: counted(composition) == {"grpc": grpc, "http": http, "session": session}

    settings = replace(settings, http_port=0, grpc_port=0)
    async with listening(settings, composition, ALONE, None) as sockets, AsyncExitStack() as connections:
        assert are(0, 0, 0)()

        async def connect(port: int) -> None:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            connections.enter_context(closing(writer))

        await connect(sockets.grpc.port)
        await connect(sockets.grpc.port)
        await until(are(2, 0, 0))
        await connect(sockets.http.port)
        await until(are(2, 1, 0))
        session = await SocketStream.connect(sockets.grpc.port, "")
        connections.enter_context(closing(session.writer))
        await until(are(2, 1, 1))
        await connections.aclose()
        await until(are(0, 0, 0))
