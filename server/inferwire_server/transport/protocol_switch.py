"""Switching protocols: a connection to one protocol's port that goes on with another, and how it is handed on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

TakeOver: TypeAlias = Callable[[asyncio.Transport, bytes], None]
"""Takes a connection whose peer has said the preface of what it speaks, and what has come behind that."""


@dataclass(frozen=True, slots=True)
class ProtocolSwitch:
    """Another protocol that may be spoken at a port.

    Attributes:
        preface: What a peer says first that speaks it.
        take_over: Has the connection from then on.
    """

    preface: bytes
    take_over: TakeOver

    def may_be(self, said: bytes) -> bool:
        """Whether a peer that has said this so far may speak it."""
        return self.preface.startswith(said[: len(self.preface)])
