"""A server has as many files open at once as the system lets it."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from inferwire_server.host.open_files import take_all_that_are_allowed

setrlimit(RLIMIT_NOFILE, (64, 256))
take_all_that_are_allowed()
print(getrlimit(RLIMIT_NOFILE))
"""


def test_the_limit_is_the_one_that_the_system_sets() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "(256, 256)\n"
