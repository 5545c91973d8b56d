"""The allocator's thresholds, where there is a glibc."""

from __future__ import annotations

import subprocess
import sys

_ASK = """
from platform import libc_ver
from inferwire_server.host.malloc import keep_big_blocks
print(keep_big_blocks(), libc_ver()[0])
"""


def test_glibc_takes_the_thresholds_and_others_are_left_alone() -> None:
    answer = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True, timeout=60)
    took, library = (*answer.stdout.split(), "")[:2]
    assert took == str(library == "glibc")
