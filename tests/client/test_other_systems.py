"""Systems that lack what Linux has: the client does without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import os, sys
# numpy and gRPC have their own ways there.
import grpc, numpy as np
del os.fork, os.register_at_fork
sys.platform = "win32"
sys.modules["fcntl"] = None

import inferwire as ov
from inferwire.transport.fake_transport import FakeTransport
from inferwire.transport.lent_memory import new_memory
from tests.client.conftest import describe, double

assert new_memory(1 << 20) is None
transport = FakeTransport(describe({"data": [1, 3]}, [1, 3]), answer=double)
print(ov.Core(transport=transport).served_model("double")(np.ones((1, 3), np.float32))[0])
"""


def test_it_can_be_imported_and_infers_where_there_are_no_forks_and_no_memfd() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "[[2. 2. 2.]]\n")
