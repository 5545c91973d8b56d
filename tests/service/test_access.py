"""Who may call."""

from __future__ import annotations

import pytest

from inferwire_proto.errors import Code
from inferwire_server.core.api_keys import ApiKeys
from inferwire_server.errors import ServingError
from inferwire_server.service import AccessService

KEY, OTHER = "a-key-of-the-operator", "another-key-of-theirs"


@pytest.fixture
def access() -> AccessService:
    """Whoever has the key."""
    return AccessService(ApiKeys.parse(KEY))


def test_without_keys_everybody_may_call() -> None:
    access = AccessService()
    access.check(None)
    access.check("Bearer nobody-looks-at-this")
    assert not access.needs_key
    assert repr(access) == "<AccessService: open to all>"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_whoever_shows_a_key_may_call(access: AccessService, scheme: str) -> None:
    access.check(f"{scheme} {KEY}")
    access.check(f"{scheme}  {KEY} ")
    assert access.needs_key
    assert repr(access) == "<AccessService: <ApiKeys: 1>>"


@pytest.mark.parametrize("authorization", [None, "", KEY, f"Basic {KEY}", "Bearer", "Bearer ", f"Bearer{KEY}"])
def test_whoever_shows_none_is_told_how(access: AccessService, authorization: str | None) -> None:
    with pytest.raises(ServingError) as caught:
        access.check(authorization)
    assert caught.value.code is Code.UNAUTHENTICATED
    assert caught.value.message == "no API key was given, expected one in 'authorization: Bearer KEY'"


@pytest.mark.parametrize("key", [OTHER, KEY[:-1], KEY + "x", f"{KEY} {KEY}", "\udcff"])
def test_another_key_is_refused_and_not_said_back(access: AccessService, key: str) -> None:
    with pytest.raises(ServingError) as caught:
        access.check(f"Bearer {key}")
    assert caught.value.code is Code.UNAUTHENTICATED
    assert caught.value.message == "the API key is not one of this server's"


def test_keys_are_renewed(access: AccessService) -> None:
    assert not access.renew(ApiKeys.parse(KEY))
    assert access.renew(ApiKeys.parse(OTHER))
    access.check(f"Bearer {OTHER}")
    with pytest.raises(ServingError):
        access.check(f"Bearer {KEY}")
