"""The exit codes of the command beside 0."""

from __future__ import annotations

MISUSE = 2
"""A command was asked for wrongly, or cannot run as installed."""
