"""What a client over a network must survive, which openvino in process never meets."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from tests.waiting import LIMIT_S, wait_until

import inferwire as ov
from inferwire_cli.server_process import ServerProcess, ServerProcessError, running_server

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
            answers = [model(row)[0].tolist() for model in (compiled, served)]
            os._exit(0 if answers == [[[1, 1, 1]]] * 2 else 1)
        assert served(row)[0].tolist() == [[1, 1, 1]]
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    assert run(PREAMBLE + dedent(script), server_address, models) == "0\n"


def test_a_forked_child_is_told_that_what_was_in_flight_is_its_parents(
    server_address: str, models: Mapping[str, Path]
) -> None:
    script = """
        import os
        queue = ov.AsyncInferQueue(slow, 1)
        queue.start_async(one)
        if (child := os.fork()) == 0:
            refused = 0
            for wait in (queue[0].wait, lambda: queue[0].wait_for(1), queue.wait_all, queue.get_idle_request_id):
                try:
                    wait()
                except RuntimeError as error:
                    refused += "create requests and queues of your own after the fork" in str(error)
            os._exit(refused)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    assert run(PREAMBLE + dedent(script), server_address, models) == "4\n"


@pytest.mark.parametrize("call", ["request.infer(one)", "request.start_async(one); request.wait()", "slow(one)"])
def test_an_interrupt_ends_a_wait_and_its_inference(server_address: str, models: Mapping[str, Path], call: str) -> None:
    script = f"""
        import _thread, os, signal
        request = slow.create_infer_request()
        request.set_callback(print, None)
        relu(row)
        interrupt = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        try:
            interrupt.start()
            {call}
        except KeyboardInterrupt:
            print("interrupted", end=" ")
        request.cancel()
        print(relu(row)[0].tolist())
        """
    assert run(PREAMBLE + dedent(script), server_address, models) == "interrupted [[1.0, 1.0, 1.0]]\n"


def test_threads_share_a_core(server_address: str, models: Mapping[str, Path]) -> None:
    core = ov.Core(server_address)
    start = threading.Barrier(16)

    def work(number: int) -> list[float]:
        start.wait(LIMIT_S)
        compiled = core.compile_model(models["relu"], "CPU")
        request = compiled.create_infer_request()
        return [float(request.infer(np.full((1, 3), number + at, np.float32))[0][0, 0]) for at in range(20)]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(work, range(16)))
    assert answers == [[number + at for at in range(20)] for number in range(16)]
    core.close()


TRANSIENT = {"Submission", "StreamExecution", "Run", "Tensor"}
"""What one inference is made of."""


def requests_alive() -> int:
    return sum(isinstance(each, ov.InferRequest) for each in gc.get_objects())


def transients_alive() -> int:
    return sum(type(each).__name__ in TRANSIENT for each in gc.get_objects())


def test_ten_thousand_requests_leave_nothing(server_address: str, models: Mapping[str, Path]) -> None:
    core = ov.Core(server_address)
    compiled = core.compile_model(models["relu"], "CPU")
    row = np.ones((1, 3), np.float32)
    request = compiled.create_infer_request()
    gc.collect()
    before, left_before = requests_alive(), transients_alive()
    gc.disable()
    try:
        for at in range(10_000):
            request = compiled.create_infer_request()
            if at % 10 == 0:
                request.start_async(row)
            if at % 20 == 0:
                request.wait()
        assert requests_alive() - before < 10
    finally:
        gc.enable()
    del request
    compiled(row)
    gc.collect()
    assert transients_alive() - left_before < 10
    core.close()


def call(compiled: ov.CompiledModel, row: np.ndarray) -> None:
    compiled(row)


def ask_a_request_for_its_model(compiled: ov.CompiledModel, row: np.ndarray) -> None:
    request = compiled.create_infer_request()
    del compiled
    assert request.get_compiled_model()(row)[0].shape == row.shape


@pytest.mark.parametrize("use", [call, ask_a_request_for_its_model])
def test_what_nobody_holds_lets_its_connection_go_without_the_garbage_collector(
    server_address: str, models: Mapping[str, Path], use: Callable[[ov.CompiledModel, np.ndarray], None]
) -> None:
    compiled = ov.Core(server_address).compile_model(models["relu"], "CPU")
    transport = weakref.ref(compiled._model.transport)
    gc.disable()
    try:
        use(compiled, np.ones((1, 3), np.float32))
        del compiled
        # Whoever has called back may not have let go of it yet.
        wait_until(lambda: transport() is None)
    finally:
        gc.enable()


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
    server.process.wait(LIMIT_S)


def run(script: str, address: str, models: Mapping[str, Path]) -> str:
    command = [sys.executable, "-W", "error", "-c", script, address, str(models["slow"]), str(models["relu"])]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    complaints = [line for line in finished.stderr.splitlines() if "fork_posix.cc" not in line]
    assert (finished.returncode, complaints) == (0, [])
    return finished.stdout
