"""What a served version may become, and what not."""

from __future__ import annotations

from itertools import product

import pytest

from inferwire_server.core.model_states import ModelState

LEGAL = {
    "loading": {"warming", "ready", "failed"},
    "warming": {"ready", "failed"},
    "ready": {"ready", "draining", "unloaded"},
    "draining": {"unloaded"},
    "unloaded": {"ready", "draining", "unloaded"},
    "failed": {"unloaded"},
}


@pytest.mark.parametrize(("before", "after"), [*product(ModelState, ModelState)])
def test_a_state_leads_to_some_and_to_no_other(before: ModelState, after: ModelState) -> None:
    if after.value in LEGAL[before.value]:
        assert before.become(after) is after
    else:
        with pytest.raises(AssertionError, match=f"{before.value} cannot become {after.value}; this is a bug"):
            before.become(after)


def test_loading_and_warming_pass() -> None:
    assert {state for state in ModelState if state.is_passing} == {ModelState.LOADING, ModelState.WARMING}
