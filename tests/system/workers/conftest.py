"""A server of two workers, a connection to each of them, and models for them to serve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op
from tests.system.servers import save_slow_model
from tests.system.workers.doors import Door, opened_doors

from inferwire_cli.server_process import ServerProcess, running_server

MODELS = Path(__file__).resolve().parents[3] / "deploy/models"
F32 = {"INFERENCE_PRECISION_HINT": "f32"}
ROW = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 64)
ONE = np.ones(1, np.float32)
SHARED = "inferwire_workers_"
FLAGS = (
    *("--device", "CPU", "--property", "INFERENCE_PRECISION_HINT=f32", "--shared-memory", f"/{SHARED}"),
    *("--allow-model-control", "--allow-log-settings", "--allow-uploads"),
)


def save_scaling(repository: Path, factor: float) -> None:
    """Save a model that multiplies by a factor."""
    data = op.parameter([1], np.float32, name="data")
    out = op.multiply(data, op.constant(np.float32(factor)))
    out.output(0).get_tensor().set_names({"out"})
    runtime: Any = openvino
    openvino.save_model(runtime.Model([out], [data], "scaling"), repository / "scaling" / "1" / "model.xml")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("models")
    for name in ("digits_mlp", "silero_vad_stateful"):
        (found / name).symlink_to(MODELS / name)
    save_slow_model(found, products=30)
    save_slow_model(found, products=250, rows=2048, name="long")
    save_scaling(found, 2)
    return found


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[ServerProcess]:
    with running_server(repository, "--workers", "2", *FLAGS) as running:
        yield running


@pytest.fixture(scope="module")
def doors(server: ServerProcess) -> Iterator[list[Door]]:
    """Connections to each worker, the lead's first."""
    with opened_doors(server, 2, "digits_mlp", "pixels", ROW) as opened:
        yield opened


@pytest.fixture(scope="module")
def digits() -> Any:
    return openvino.Core().compile_model(MODELS / "digits_mlp/1/digits_mlp.xml", "CPU", F32)
