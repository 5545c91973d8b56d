"""Trace context: how transports make a request's work part of the trace that its headers name, without reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TypeAlias

JoinTrace: TypeAlias = Callable[[Iterable[tuple[str, str]], str], AbstractContextManager[None]]
"""Has jobs that are submitted inside belong to the trace that a request's headers name, and tell the request's id: the
one that the log has, or nothing."""
