"""A model with states, which callers share: nobody may see what another left behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino
import pytest

import inferwire as ov
from inferwire_cli.server_process import running_server

SILERO = Path(__file__).resolve().parents[2] / "deploy/models/silero_vad_stateful"


def test_each_inference_starts_from_fresh_states_and_the_user_is_told() -> None:
    chunks = np.random.default_rng(0).standard_normal((6, 1, 576)).astype(np.float32)
    local = openvino.Core().compile_model(
        SILERO / "1/silero_vad_stateful.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    with running_server(SILERO, "--device", "CPU", "--property", "INFERENCE_PRECISION_HINT=f32") as server:
        compiled = ov.Core(server.grpc_address).served_model("silero_vad_stateful")
        with pytest.warns(RuntimeWarning, match="each inference starts from fresh ones"):
            request = compiled.create_infer_request()
        for chunk in chunks:
            fresh = local.create_infer_request().infer([chunk])[0]
            np.testing.assert_allclose(request.infer([chunk])[0], fresh, atol=1e-5)
