"""What a served version may become, and what not."""

from __future__ import annotations

from itertools import product

import pytest

from inferwire_server.core.version_states import VersionState

LEGAL = {
    "loading": {"warming", "ready", "failed"},
    "warming": {"ready", "failed"},
    "ready": {"ready", "draining", "unloaded"},
    "draining": {"unloaded"},
    "unloaded": {"ready", "draining", "unloaded"},
    "failed": {"unloaded"},
}


@pytest.mark.parametrize(("before", "after"), [*product(VersionState, VersionState)])
def test_a_state_leads_to_some_and_to_no_other(before: VersionState, after: VersionState) -> None:
    if after.value in LEGAL[before.value]:
        assert before.become(after) is after
    else:
        with pytest.raises(AssertionError, match=f"{before.value} cannot become {after.value}; this is a bug"):
            before.become(after)


def test_loading_and_warming_pass() -> None:
    assert {state for state in VersionState if state.is_passing} == {VersionState.LOADING, VersionState.WARMING}
