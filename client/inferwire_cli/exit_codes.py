"""The exit codes of the command beside 0."""

from __future__ import annotations

FAILED = 1
"""The server refused, cannot be reached, or answered with errors."""

MISUSE = 2
"""A command line is wrong, or the command cannot run as installed."""

INTERRUPTED = 130
"""Ctrl-C, as a shell counts it."""
