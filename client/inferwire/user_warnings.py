"""Warnings to the program that uses the SDK: each names the program's line, however deep in the SDK it arises."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path

_OWN_FILES = f"{Path(__file__).parent}{os.sep}"


def warn(message: str, kind: type[Warning]) -> None:
    """Warn at the line that called the SDK, because Python shows a warning once for each line."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OWN_FILES):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, kind, stacklevel=level)


def warn_of_old_name(name: str, instead: str) -> None:
    """Warn a program that uses a name which openvino has given up."""
    warn(f"{name} is deprecated; use {instead} instead", DeprecationWarning)


def shares_inputs(share_inputs: bool, shared_memory: bool | None) -> bool:
    """Read what `share_inputs` was called until 2023, before there was `share_outputs`."""
    if shared_memory is None:
        return share_inputs
    warn_of_old_name("shared_memory", "share_inputs")
    return shared_memory
