"""What each interface calls the states of models."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from inferwire_server.core.version_states import VersionState
from inferwire_server.transport.oip import repository
from inferwire_server.transport.rest import model_server_routes


@pytest.mark.parametrize(
    "words",
    [repository.STATES, model_server_routes.STATES],
    ids=["Open Inference Protocol", "OpenVINO Model Server"],
)
def test_every_state_has_a_word(words: Mapping[VersionState, object]) -> None:
    assert set(words) == set(VersionState)
