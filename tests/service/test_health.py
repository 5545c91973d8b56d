"""Readiness: of the server, strict or not, and of its models."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition

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


async def test_a_model_or_version_nobody_knows_is_not_ready(serving: Serving) -> None:
    async with serving(FakeModel(echo_spec("m"))) as server:
        health = server.services.health
        assert health.is_model_ready("m", "1")
        assert not health.is_model_ready("m", "2")
        assert not health.is_model_ready("x")
        with pytest.raises(ServingError, match="failed to get model version"):
            health.is_model_ready("m", "one")
