"""Python environments for what cannot stand beside the tests' own packages."""

from __future__ import annotations

import sys
import venv
from collections.abc import Callable
from pathlib import Path


def python_of(folder: Path, made_of: str, fill: Callable[[Path], object]) -> Path:
    """Give an environment's Python, and make the environment first if it does not exist or is made of something else.

    Args:
        folder: Where it is.
        made_of: What decides which packages it has, as text.
        fill: Installs them; is given the Python of the new environment.
    """
    python, note = folder / "bin/python", folder / "made-of"
    if not note.exists() or note.read_text() != made_of:
        print(f"installing packages into {folder}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        fill(python)
        note.write_text(made_of)
    return python
