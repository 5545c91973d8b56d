"""What a caller is told who asks for a model that takes no jobs."""

from __future__ import annotations

import pytest

from inferwire.transport.descriptions import ModelStatus
from inferwire.transport.served_models import what_there_is


def versions(name: str, *states: str) -> list[ModelStatus]:
    return [ModelStatus(name, str(at), state, "") for at, state in enumerate(states, 1)]


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ([], "the server has no models"),
        (versions("b", "ready", "failed") + versions("a", "ready"), "there are 'a', 'b'"),
        (versions("m", "unloaded", "ready"), "it has version 1 (unloaded), version 2 (ready)"),
        (versions("m", "unloaded"), "it has version 1 (unloaded): `inferwire load m` brings it back"),
        ([each for at in range(22) for each in versions(f"m{at:02}", "ready")], "'m18', 'm19' and 2 more"),
    ],
)
def test_what_there_is_is_said(models: list[ModelStatus], said: str) -> None:
    assert what_there_is(models, "m").endswith(said)
