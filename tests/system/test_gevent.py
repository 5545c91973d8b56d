"""A program whose threads gevent has made greenlets, as gunicorn's gevent workers do, infers as any other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import LIMIT_S

from inferwire_cli.server_process import running_server

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
from gevent import monkey
monkey.patch_all()

import sys
import gevent
import numpy as np
import inferwire as ov

PIXELS = np.zeros((1, 64), np.float32)
compiled = ov.Core(sys.argv[1]).served_model("digits_mlp")
print(compiled(PIXELS)[0].shape)
print(len({compiled(PIXELS)[0].tobytes() for _ in range(100)}))

greenlets = [gevent.spawn(compiled.infer_new_request, PIXELS) for _ in range(8)]
print(len({each.get()[0].tobytes() for each in greenlets}))

found = []
queue = ov.AsyncInferQueue(compiled, 2)
queue.set_callback(lambda request, index: found.append(index))
for index in range(8):
    queue.start_async(PIXELS, index)
queue.wait_all()
print(sorted(found))
"""


@pytest.mark.parametrize("scheme", ["", "grpc://"], ids=["on a socket", "on gRPC"])
def test_greenlets_infer(scheme: str) -> None:
    with running_server(ROOT / "deploy/models") as server:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM, f"{scheme}{server.grpc_address}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    assert done.stdout == "(1, 10)\n1\n1\n[0, 1, 2, 3, 4, 5, 6, 7]\n", done.stderr
    assert (done.returncode, done.stderr) == (0, "")
