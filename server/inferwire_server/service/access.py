"""Who may call: everybody, or only callers that show a key."""

from __future__ import annotations

from inferwire_proto.errors import Code
from inferwire_server.core.api_keys import ApiKeys, digest_of
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
        """Take these keys from now on, and say whether they differ from those before. Streams that are open go on."""
        are_others = keys != self._keys
        self._keys = keys
        return are_others

    def check(self, authorization: str | None) -> bytes | None:
        """Refuse a caller that does not show a valid key, and give the key's digest; None if no key is needed.

        `authorization` is the header of this name.

        Raises:
            ServingError: UNAUTHENTICATED.
        """
        if self._keys is None:
            return None
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != _SCHEME or not key:
            raise _unauthenticated("no API key was given, expected one in 'authorization: Bearer KEY'")
        digest = digest_of(key.strip())
        self.check_still(digest)
        return digest

    def check_still(self, digest: bytes | None) -> None:
        """Refuse a caller whose key is no longer one.

        Raises:
            ServingError: UNAUTHENTICATED.
        """
        if self._keys is not None and (digest is None or not self._keys.have(digest)):
            raise _unauthenticated("the API key is not one of this server's")


def _unauthenticated(sentence: str) -> ServingError:
    return ServingError(Code.UNAUTHENTICATED, sentence)
