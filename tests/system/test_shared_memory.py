"""A server process and a program beside it: the real runtime reads and writes the program's shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm

import inferwire as ov
from inferwire_cli.server_process import ServerProcess, running_server

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "inferwire_test_"
PIXELS = np.linspace(0, 1, 128, dtype=np.float32).reshape(2, 64)
BATCHED = ("--property", "INFERWIRE_MAX_BATCH=8")


@pytest.fixture(scope="module", params=[(), BATCHED], ids=["plain", "batched"])
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    flags = ("--shared-memory", f"/{PREFIX}", "--shared-memory", "other", "--property", "INFERENCE_PRECISION_HINT=f32")
    with running_server(ROOT / "deploy/models/digits_mlp", *flags, *request.param) as running:
        yield running


@pytest.fixture
def region() -> Iterator[Any]:
    key = f"/{PREFIX}{token_hex(4)}"
    made = shm.create_shared_memory_region("region", key, 2048)
    yield made
    shm.destroy_shared_memory_region(made)


@pytest.mark.parametrize("interface", [triton_grpc, triton_http], ids=["grpc", "http"])
@pytest.mark.parametrize("offset", [0, 1, 1000], ids=["aligned", "misaligned", "further in"])
def test_the_answer_is_that_of_a_message(server: ServerProcess, region: Any, interface: Any, offset: int) -> None:
    expected = ov.Core(server.grpc_address).served_model("digits_mlp")(PIXELS)[0]
    shm.set_shared_memory_region(region, [PIXELS], offset)
    given, wanted = interface.InferInput("pixels", [2, 64], "FP32"), interface.InferRequestedOutput("probabilities")
    given.set_shared_memory("region", PIXELS.nbytes, offset)
    wanted.set_shared_memory("region", 80, offset + PIXELS.nbytes + 1)
    with interface.InferenceServerClient(
        server.grpc_address if interface is triton_grpc else server.http_address
    ) as client:
        client.register_system_shared_memory("region", region._shm_key, 2048)
        try:
            client.infer("digits_mlp", [given], outputs=[wanted])
        finally:
            client.unregister_system_shared_memory("region")
    got = shm.get_contents_as_numpy(region, np.float32, (2, 10), offset + PIXELS.nbytes + 1)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    del got
