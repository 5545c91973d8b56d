"""The client where openvino is not installed: all of it works."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

from inferwire_cli.server_process import running_server

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "deploy/models/digits_mlp"
TIMEOUT_S = 300

BLOCK = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"openvino", "inferwire_server"}:
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, NotInstalled())
"""


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", BLOCK + dedent(script), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_openvino_is_not_there() -> None:
    assert run("try: import openvino\nexcept ImportError as error: print(error)") == "No module named 'openvino'\n"


def test_the_clients_own_tests_pass() -> None:
    # Those that compare with openvino need it, and say so in their first lines.
    files = [file for file in (ROOT / "tests/client").rglob("test_*.py") if "\nimport openvino" not in file.read_text()]
    assert len(files) > 8
    script = """
        import pytest
        code = pytest.main([*sys.argv[1:], "-q", "-p", "no:cacheprovider"])
        assert not any(name.partition(".")[0] == "openvino" for name in sys.modules)
        sys.exit(code)
        """
    with ThreadPoolExecutor() as threads:
        for half in [threads.submit(run, script, *map(str, each)) for each in (files[::2], files[1::2])]:
            assert " passed" in half.result()


def test_models_run_on_a_server() -> None:
    script = """
        import asyncio
        import numpy as np
        import inferwire as ov

        address, path = sys.argv[1:]
        row = np.zeros((1, 64), np.float32)
        core = ov.Core(address)
        assert core.available_devices and core.get_versions("CPU") and core.get_property("CPU", "FULL_DEVICE_NAME")
        model = core.read_model(path)
        model.reshape({0: [2, 64]})
        with open(path, "rb") as xml, open(path.replace(".xml", ".bin"), "rb") as weights:
            from_memory = core.compile_model(core.read_model(xml.read(), weights.read()), "CPU")
        assert from_memory.get_property(ov.properties.hint.inference_precision)
        for compiled in (core.served_model("digits_mlp"), core.compile_model(path, "CPU"), from_memory):
            assert compiled(row)[0].shape == (1, 10)
            assert compiled.infer_new_request(row)[compiled.output(0)].shape == (1, 10)
            queue = ov.AsyncInferQueue(compiled, 2)
            seen = []
            queue.set_callback(lambda request, userdata: seen.append(userdata))
            for index in range(4):
                queue.start_async(row, index)
            queue.wait_all()
            assert sorted(seen) == [0, 1, 2, 3]
            assert asyncio.run(queue.infer_async(row))[0].shape == (1, 10)
        print("done")
        """
    with running_server(DIGITS, "--allow-uploads") as server:
        path = str(next((DIGITS / "1").glob("*.xml")))
        assert run(script, server.grpc_address, path) == "done\n"
