"""The exit codes of the command beside 0."""

from __future__ import annotations

FAILED = 1
"""The server refused, is not there, or answered with errors."""

MISUSE = 2
"""A command was asked for wrongly, or cannot run as installed."""

INTERRUPTED = 130
"""Ctrl-C, as a shell counts it."""
