"""Version policies: how they are written, and what they choose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_proto.errors import Code
from inferwire_server.core.versions import All, Latest, Specific, VersionPolicy, parse_version_policy
from inferwire_server.errors import ServingError

_numbers = st.integers(min_value=0, max_value=10**6)
_policies = st.one_of(
    st.builds(Latest, st.integers(min_value=1, max_value=50)),
    st.just(All()),
    st.builds(Specific, st.frozensets(_numbers, min_size=1)),
)


@pytest.mark.parametrize(
    ("text", "policy", "chosen"),
    [
        ("latest", Latest(), {10}),
        ("latest:1", Latest(), {10}),
        ("latest:2", Latest(2), {9, 10}),
        ("latest:9", Latest(9), {1, 9, 10}),
        ("all", All(), {1, 9, 10}),
        ("1", Specific(frozenset({1})), {1}),
        ("1, 010,7", Specific(frozenset({1, 10, 7})), {1, 10}),
    ],
)
def test_a_policy_chooses_by_number(text: str, policy: VersionPolicy, chosen: set[int]) -> None:
    assert parse_version_policy(text) == policy
    assert policy.choose([9, 1, 10]) == chosen


@given(_policies, st.frozensets(_numbers))
def test_a_policy_chooses_of_what_is_there(policy: VersionPolicy, versions: frozenset[int]) -> None:
    chosen = policy.choose(versions)
    assert chosen <= versions
    if isinstance(policy, Latest):
        assert len(chosen) == min(policy.count, len(versions))
        assert all(left < kept for left in versions - chosen for kept in chosen)


@pytest.mark.parametrize(
    "text", ["", "newest", "latest:", "latest:0", "latest:-1", "latest:two", "all:2", "1,", "1;3", "²", "9" * 5000]
)
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(ServingError) as caught:
        parse_version_policy(text)
    assert caught.value.code is Code.INVALID_INPUT
    assert caught.value.message.startswith(f"the version policy is '{text}', expected latest, ")
