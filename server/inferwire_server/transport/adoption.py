"""Whose trace a request's work is part of: what transports do with headers that they do not read themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TypeAlias

Adopt: TypeAlias = Callable[[Iterable[tuple[str, str]]], AbstractContextManager[None]]
"""Has whatever is submitted inside belong to the trace that a request's headers name."""
