"""What a client over a network must survive, which openvino in process never meets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import inferwire as ov
from inferwire_cli.server_process import ServerProcess, ServerProcessError, running_server

TIMEOUT_S = 60

PREAMBLE = """
import sys, threading
import numpy as np
import inferwire as ov
core = ov.Core(sys.argv[1])
slow = core.compile_model(sys.argv[2], "CPU")
relu = core.compile_model(sys.argv[3], "CPU")
one = np.ones(1, np.float32)
row = np.ones((1, 3), np.float32)
"""

ENDINGS = {
    "nothing in flight": "relu(row)",
    "a request in flight": "request = slow.create_infer_request(); request.start_async(one)",
    "a pool in flight": "queue = ov.AsyncInferQueue(slow, 4); [queue.start_async(one) for _ in range(4)]",
    "a callback that never returns": """
        entered = threading.Event()
        request = relu.create_infer_request()
        request.set_callback(lambda _: (entered.set(), threading.Event().wait()), None)
        request.start_async(row)
        entered.wait()
        """,
    "an inference on a daemon thread": """
        request = slow.create_infer_request()
        threading.Thread(target=request.infer, args=(one,), daemon=True).start()
        """,
    "a connection that was closed": "relu(row); core.close()",
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_the_interpreter_ends_whatever_is_in_flight(
    server_address: str, models: Mapping[str, Path], ending: str
) -> None:
    assert run(PREAMBLE + dedent(ending) + "\nprint('end')", server_address, models) == "end\n"


def test_a_forked_child_opens_its_own_connection(server_address: str, models: Mapping[str, Path]) -> None:
    script = """
        import os
        served = relu
        assert served(row)[0].tolist() == [[1, 1, 1]]
        child = os.fork()
        if child == 0:
            compiled = core.compile_model(sys.argv[3], "CPU")
            os._exit(0 if compiled(row)[0].tolist() == [[1, 1, 1]] else 1)
        assert served(row)[0].tolist() == [[1, 1, 1]]
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    assert run(PREAMBLE + dedent(script), server_address, models) == "0\n"


def test_a_server_that_dies_fails_what_waits_for_it(tmp_path: Path, models: Mapping[str, Path]) -> None:
    repository = tmp_path / "relu" / "1"
    repository.mkdir(parents=True)
    for suffix in (".xml", ".bin"):
        (repository / f"relu{suffix}").write_bytes(models["relu"].with_suffix(suffix).read_bytes())
    with pytest.raises(ServerProcessError, match="exit code -9"):
        serve_and_kill(tmp_path, models["slow"])


def serve_and_kill(repository: Path, slow: Path) -> None:
    row = np.ones((1, 3), np.float32)
    with running_server(repository, "--allow-uploads") as server:
        core = ov.Core(server.grpc_address)
        relu = core.served_model("relu")
        request = core.compile_model(slow, "CPU").create_infer_request()
        request.start_async(np.ones(1, np.float32))
        assert relu(row)[0].tolist() == [[1, 1, 1]]
        kill(server)
        with pytest.raises(ov.ServerUnavailable):
            request.wait()
        with pytest.raises(ov.ServerUnavailable, match="start one with `inferwire serve`"):
            relu(row)


def kill(server: ServerProcess) -> None:
    server.process.kill()
    server.process.wait(TIMEOUT_S)


def run(script: str, address: str, models: Mapping[str, Path]) -> str:
    command = [sys.executable, "-W", "error", "-c", script, address, str(models["slow"]), str(models["relu"])]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    complaints = [line for line in finished.stderr.splitlines() if "fork_posix.cc" not in line]
    assert (finished.returncode, complaints) == (0, [])
    return finished.stdout
