"""Models that are compiled and run in a process of their own, which they may end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from tests.waiting import LIMIT_S

RUN = """
import json
import sys
import numpy as np
from pathlib import Path
from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.openvino_backend.backend import OpenVinoBackend

data = np.load(sys.argv[2])
options = ModelOptions("m", "CPU", json.loads(sys.argv[4]))
model = OpenVinoBackend().compile(Source(Path(sys.argv[1])), options)
(found,) = model.create_slot().run([Tensor(BY_NAME["f32"], data.shape, data.tobytes())], [0])
np.save(sys.argv[3], np.frombuffer(found.data, np.float32).reshape(found.shape))
"""


def run_apart(path: Path, data: np.ndarray, **properties: str) -> np.ndarray:
    """Compile a model of one input and one output as the server does, in f32 unless told otherwise, and run it."""
    given, found = path.with_name("given.npy"), path.with_name("found.npy")
    np.save(given, data)
    settings = json.dumps({"INFERENCE_PRECISION_HINT": "f32"} | properties)
    command = [sys.executable, "-c", RUN, str(path), str(given), str(found), settings]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    return np.load(found)
