"""Enumerations whose members compare and order as those of openvino."""

from __future__ import annotations

from enum import Enum

from inferwire.arguments import as_member


class Choice(Enum):
    """An enumeration whose members convert to int, hash by their values, and equal the same members of openvino's.

    If openvino's member is on the left, openvino compares the two, and they are not equal.
    """

    def __int__(self) -> int:
        return int(self.value)

    def __eq__(self, other: object) -> bool:
        return self is other or self is as_member(other, type(self))

    def __hash__(self) -> int:
        return hash(self.value)


class OrderedChoice(Choice):
    """A `Choice` whose members are ordered by their numbers, too."""

    def __lt__(self, other: object) -> bool:
        return int(self) < int(other) if isinstance(other, type(self)) else NotImplemented

    def __le__(self, other: object) -> bool:
        return int(self) <= int(other) if isinstance(other, type(self)) else NotImplemented
