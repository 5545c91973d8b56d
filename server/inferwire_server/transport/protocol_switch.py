"""Switching protocols: how a connection to one protocol's port is handed on if its peer speaks another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

TakeOver: TypeAlias = Callable[[asyncio.Transport, bytes], None]
"""Takes a connection whose peer has sent the other protocol's preface, and the bytes that came behind it."""


@dataclass(frozen=True, slots=True)
class ProtocolSwitch:
    """Another protocol that may be spoken at a port.

    Attributes:
        preface: What a peer that speaks it sends first.
        take_over: Takes the connection over from then on.
    """

    preface: bytes
    take_over: TakeOver

    def may_be(self, said: bytes) -> bool:
        """Whether a peer that has sent this so far may speak it."""
        return self.preface.startswith(said[: len(self.preface)])
