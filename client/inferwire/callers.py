"""Who calls the SDK: warnings are for the line of the program that does, however far inside they are noticed."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path

_OWN_FILES = f"{Path(__file__).parent}{os.sep}"


def warn(message: str, kind: type[Warning]) -> None:
    """Warn whoever called the SDK. Python shows a warning once for each place, which should be the program's."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OWN_FILES):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, kind, stacklevel=level)
