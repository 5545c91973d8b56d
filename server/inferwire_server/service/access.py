"""Who may call: everybody, or whoever shows a key."""

from __future__ import annotations

from inferwire_proto.errors import Code
from inferwire_server.core.api_keys import ApiKeys
from inferwire_server.errors import ServingError

_SCHEME = "bearer"


class AccessService:
    """Knows the keys, if there are any."""

    def __init__(self, keys: ApiKeys | None = None) -> None:
        self._keys = keys

    def __repr__(self) -> str:
        return f"<AccessService: {'open to all' if self._keys is None else self._keys}>"

    @property
    def needs_key(self) -> bool:
        """Whether callers have to show a key. It stays as it is."""
        return self._keys is not None

    def renew(self, keys: ApiKeys) -> bool:
        """Take these keys from now on, and say whether they are others. Streams that are open go on."""
        are_others = keys != self._keys
        self._keys = keys
        return are_others

    def check(self, authorization: str | None) -> None:
        """Refuse a caller that does not show a key; `authorization` is the header of this name.

        Raises:
            ServingError: UNAUTHENTICATED.
        """
        if self._keys is None:
            return
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != _SCHEME or not key:
            raise _unauthenticated("no API key was given, expected one in 'authorization: Bearer KEY'")
        if key.strip() not in self._keys:
            raise _unauthenticated("the API key is not one of this server's")


def _unauthenticated(sentence: str) -> ServingError:
    return ServingError(Code.UNAUTHENTICATED, sentence)
