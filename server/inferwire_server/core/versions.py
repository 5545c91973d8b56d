"""Which versions of a model are served: the policies and how they are written.

latest      the highest; latest:3 the three highest
all         every one
1,3         these
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from inferwire_server.errors import invalid_input


@dataclass(frozen=True, slots=True)
class Latest:
    """The highest versions, as many as are wanted."""

    count: int = 1

    def choose(self, versions: Collection[int]) -> frozenset[int]:
        """Give the versions to serve of those there are."""
        return frozenset(sorted(versions)[-self.count :])


@dataclass(frozen=True, slots=True)
class All:
    """Every version."""

    def choose(self, versions: Collection[int]) -> frozenset[int]:
        """Give the versions to serve of those there are."""
        return frozenset(versions)


@dataclass(frozen=True, slots=True)
class Specific:
    """The versions that are named, as far as they are there."""

    numbers: frozenset[int]

    def choose(self, versions: Collection[int]) -> frozenset[int]:
        """Give the versions to serve of those there are."""
        return self.numbers.intersection(versions)


VersionPolicy: TypeAlias = Latest | All | Specific


def parse_version_policy(text: str) -> VersionPolicy:
    """Read a policy.

    Raises:
        ServingError: INVALID_INPUT for what is none.
    """
    kind, colon, count = text.partition(":")
    if kind == "latest" and (not colon or (_is_number(count) and int(count) > 0)):
        return Latest(int(count) if colon else 1)
    if text == "all":
        return All()
    numbers = [number.strip() for number in text.split(",")]
    if all(_is_number(number) for number in numbers):
        return Specific(frozenset(int(number) for number in numbers))
    raise invalid_input(
        f"the version policy is '{text}', expected latest, latest:2 (a number from 1 up), all, or versions such as 1,3"
    )


def _is_number(text: str) -> bool:
    # Python refuses to read numbers of thousands of digits; a folder's name cannot be as long.
    return text.isascii() and text.isdigit() and len(text) <= 255
