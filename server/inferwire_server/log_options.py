"""The options of the log, as flags and callers say them: its levels and its formats."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
"""A level that something is logged at, from the lowest."""

LogFormat: TypeAlias = Literal["auto", "console", "json"]
"""How a line looks; auto is console on a terminal, else json."""

LEVELS: tuple[str, ...] = (*get_args(LogLevel), "off")
"""From the level that logs all to the one that logs nothing."""
