"""How members of enumerations are compared and ordered, as openvino's are."""

from __future__ import annotations

from enum import Enum

from inferwire.arguments import as_member


class Choice(Enum):
    """Members convert to int, hash as it, and equal the same ones of an openvino installed beside.

    Where the comparison begins with openvino's member, it is openvino that says no.
    """

    def __int__(self) -> int:
        return int(self.value)

    def __eq__(self, other: object) -> bool:
        return self is other or self is as_member(other, type(self))

    def __hash__(self) -> int:
        return hash(self.value)


class OrderedChoice(Choice):
    """Members are ordered by their numbers, too."""

    def __lt__(self, other: object) -> bool:
        return int(self) < int(other) if isinstance(other, type(self)) else NotImplemented

    def __le__(self, other: object) -> bool:
        return int(self) <= int(other) if isinstance(other, type(self)) else NotImplemented
