"""What OpenVINO's Python does once, at its first use, is done before threads open models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import openvino
import openvino.opset13 as ops
from tests.waiting import LIMIT_S

make: Any = openvino.Model

READ = """
import builtins
import sys
import openvino
from inferwire_server.openvino_backend.backend import OpenVinoBackend

backend = OpenVinoBackend()
model = openvino.Core().read_model(sys.argv[1])
import_it = builtins.__import__

def tell(name, *others):
    print("imports", name)
    return import_it(name, *others)

builtins.__import__ = tell
(constant,) = [node for node in model.get_ops() if node.get_type_name() == "Constant"]
print(constant.data.tolist())
"""


def test_the_first_constant_that_is_read_imports_nothing(tmp_path: Path) -> None:
    """Python runs other threads meanwhile, and one that reads a constant too would wait for this one forever."""
    path = tmp_path / "model.xml"
    data = ops.parameter([2], openvino.Type.f32)
    openvino.save_model(make([ops.add(data, ops.constant([1.0, 2.0], openvino.Type.f32))], [data], "m"), path)
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    assert done.stdout == "[1.0, 2.0]\n"
