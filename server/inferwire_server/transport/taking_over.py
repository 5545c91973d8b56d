"""Connections that begin with one protocol and go on with another: how the first hands them on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

TakeOver: TypeAlias = Callable[[asyncio.Transport, bytes], None]
"""Takes a connection whose peer has said that it speaks a session's frames, and what has come of them."""
