"""The committed stubs are what the protos give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_stubs_are_what_the_protos_give() -> None:
    command = [sys.executable, str(ROOT / "proto/generate.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (checked.returncode, checked.stderr) == (0, "")
