"""gRPC calls at one of several workers: which of them it answers by itself."""

from __future__ import annotations

from typing import Any, cast

import pytest

from inferwire_server.crew import Crew
from inferwire_server.errors import ServingError
from inferwire_server.gil_thread import GilThread
from inferwire_server.open_inference.stubs.grpc_service_pb2 import DESCRIPTOR, LogSettingsRequest
from inferwire_server.transport.relay.other_workers import OtherWorkers
from inferwire_server.transport.relay.routing import Routing
from inferwire_server.transport.relay.rpc_calls import RpcRelay
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.methods import RawCall

LOG_SETTINGS = DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name["LogSettings"]


class FromOutside:
    """The context of a call that no worker makes."""

    metadata = ()


def relayed(index: int) -> RawCall:
    """Give what answers the call at a worker that none of the others is there for."""
    crew = Crew(index, 2, token="token")
    other_workers = OtherWorkers(crew)

    async def call(data: bytes, _: Context) -> bytes:
        return b"here"

    return RpcRelay(Routing(crew, other_workers, frozenset[str], GilThread()), other_workers).around(LOG_SETTINGS, call)


FROM_OUTSIDE = cast("Any", FromOutside())


@pytest.mark.parametrize("index", [0, 1])
async def test_what_is_logged_is_said_where_it_is_asked(index: int) -> None:
    assert await relayed(index)(LogSettingsRequest().SerializeToString(), FROM_OUTSIDE) == b"here"


async def test_to_change_it_takes_all_workers() -> None:
    asked = LogSettingsRequest()
    asked.settings["log_info"].bool_param = False
    with pytest.raises(ServingError, match="not all of its workers are there yet"):
        await relayed(0)(asked.SerializeToString(), FROM_OUTSIDE)
