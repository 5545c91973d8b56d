"""API keys: which ones an operator's file lists, and whether the key that a caller shows is one of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

from inferwire_server.errors import invalid_input

SHORTEST_KEY = 16
"""The fewest characters of a key: fewer could be guessed over a network."""

_VISIBLE = re.compile(r"[!-~]+")
"""What a header can carry as one word."""


@dataclass(frozen=True, slots=True, repr=False)
class ApiKeys:
    """Keys, of which only digests are kept, so that how long a lookup takes says nothing about how close a guess is."""

    digests: frozenset[bytes]

    def __repr__(self) -> str:
        return f"<ApiKeys: {len(self)}>"

    def __len__(self) -> int:
        return len(self.digests)

    def have(self, digest: bytes) -> bool:
        """Tell whether this is the digest of one of the keys. A caller may show a key that is one no longer."""
        return digest in self.digests

    @staticmethod
    def parse(text: str) -> ApiKeys:
        """Read a file of keys, one in a line; lines that are empty or begin with # say nothing.

        Raises:
            ServingError: INVALID_INPUT for a line that is no key, without its content; or if there is no key.
        """
        digests: set[bytes] = set()
        for number, line in enumerate(text.splitlines(), start=1):
            key = line.strip()
            if not key or key.startswith("#"):
                continue
            if _VISIBLE.fullmatch(key) is None:
                raise invalid_input(f"line {number} is no API key: it has blanks, or characters beyond ASCII, in it")
            if len(key) < SHORTEST_KEY:
                raise invalid_input(
                    f"the API key in line {number} has {len(key)} characters, expected {SHORTEST_KEY} or more"
                )
            digests.add(digest_of(key))
        if not digests:
            raise invalid_input("there is no API key in it, expected one in a line")
        return ApiKeys(frozenset(digests))


def digest_of(key: str) -> bytes:
    """Give the digest by which the server knows a key."""
    return sha256(key.encode("utf-8", "surrogatepass")).digest()
