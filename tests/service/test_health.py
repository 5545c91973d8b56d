"""Readiness: of the server, strict or not, and of its models."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from inferwire_proto.errors import Code
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition
from inferwire_server.service.health import HealthService

Serving = Callable[..., AbstractAsyncContextManager[Composition]]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("broken", [(), ("broken",)])
async def test_a_model_that_failed_makes_a_strict_server_not_ready(
    serving: Serving, strict: bool, broken: tuple[str, ...]
) -> None:
    async with serving(FakeModel(echo_spec("m")), broken=broken, strict_readiness=strict) as server:
        health = server.services.health
        assert health.is_ready is not (strict and bool(broken))
        assert health.is_model_ready("m")
        assert not health.is_model_ready("broken")
        assert repr(health).endswith(": ready>" if health.is_ready else ": not ready>")
        health.end()
        assert not health.is_ready


async def test_no_model_is_ready_before_the_server_takes_work_and_once_it_sends_it_elsewhere(serving: Serving) -> None:
    async with serving(FakeModel(echo_spec("m")), broken=("broken",)) as server:
        catalogue, identity = server.catalogue, server.services.health.identity
        health = HealthService(identity, catalogue, is_strict=False)
        assert not health.is_model_ready("m")
        with pytest.raises(ServingError, match="the server is starting") as starting:
            health.require_model("m")
        assert starting.value.code is Code.MODEL_NOT_READY
        health.begin()
        health.require_model("m")
        assert health.is_model_ready("m")
        health.end()
        assert not health.is_model_ready("m")
        with pytest.raises(ServingError, match="the server is shutting down") as ending:
            health.require_model("m")
        assert ending.value.code is Code.SHUTTING_DOWN
        # What is known of the model itself says more.
        with pytest.raises(ServingError, match="failed to load 'broken'"):
            health.require_model("broken")


async def test_a_model_or_version_nobody_knows_is_not_ready(serving: Serving) -> None:
    async with serving(FakeModel(echo_spec("m"))) as server:
        health = server.services.health
        assert health.is_model_ready("m", "1")
        assert not health.is_model_ready("m", "2")
        assert not health.is_model_ready("x")
        with pytest.raises(ServingError, match="failed to get model version"):
            health.is_model_ready("m", "one")
