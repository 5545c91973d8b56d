"""The ports that a server opens, as its settings name them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition
from inferwire_server.settings import Settings
from inferwire_server.sockets import listening
from inferwire_server.transport.relay.crew import ALONE


async def test_one_port_for_both_is_a_contradiction(composition: Composition, settings: Settings) -> None:
    with pytest.raises(ServingError) as caught:
        async with listening(replace(settings, http_port=26010, grpc_port=26010), composition, ALONE, None):
            pass
    assert caught.value.code is Code.INVALID_INPUT
    assert caught.value.message == "--http-port and --grpc-port are both 26010, expected two ports"


async def test_any_free_port_may_be_asked_for_twice(composition: Composition, settings: Settings) -> None:
    async with listening(replace(settings, http_port=0, grpc_port=0), composition, ALONE, None) as opened:
        assert opened.http.port != opened.grpc.port
