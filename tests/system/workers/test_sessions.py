"""Sessions whose clients reach another worker than the one that has the session: nothing of it is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import openvino
import pytest
from tests.system.proxy import Proxy
from tests.system.workers.conftest import F32, MODELS, ROW
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire_cli.server_process import HOST, ServerProcess

SPEECH = "silero_vad_stateful"
DIGITS = MODELS / "digits_mlp/1/digits_mlp.xml"
TIMES = 8
"""How often a connection is cut. The next one leads to any of the workers."""


class Lossy(NamedTuple):
    """A way to the server for one test's clients, whose connections may be lost."""

    proxy: Proxy
    others: set[threading.Thread]

    def lose(self) -> None:
        """Cut the connections, and wait until the clients know."""
        self.proxy.go_down()
        for reading in sessions() - self.others:
            reading.join(LIMIT_S)
        self.proxy.come_back()

    def core(self, scheme: str) -> ov.Core:
        return ov.Core(f"{scheme}{HOST}:{self.proxy.port}")


def sessions() -> set[threading.Thread]:
    """Give the threads that read what comes in open sessions."""
    return {each for each in threading.enumerate() if each.name == "inferwire-session"}


@pytest.fixture
def way(server: ServerProcess) -> Iterator[Lossy]:
    with Proxy(server.grpc_port) as running:
        yield Lossy(running, sessions())


SCHEMES = pytest.mark.parametrize("scheme", ["", "grpc://"], ids=["on a socket", "on gRPC"])


@SCHEMES
def test_states_outlive_a_lost_connection(way: Lossy, scheme: str) -> None:
    chunks = np.random.default_rng(0).standard_normal((TIMES, 1, 576)).astype(np.float32)
    local: Any = openvino.Core().compile_model(MODELS / SPEECH / f"1/{SPEECH}.xml", "CPU", F32).create_infer_request()
    request = way.core(scheme).served_model(SPEECH).create_infer_request()
    for chunk in chunks:
        np.testing.assert_allclose(request.infer([chunk])[0], local.infer([chunk])[0], atol=1e-6)
        way.lose()
        for state, expected in zip(request.query_state(), local.query_state(), strict=True):
            np.testing.assert_allclose(state.state.data, expected.state.data, atol=1e-5)


@SCHEMES
def test_kept_tensors_and_compiled_models_outlive_a_lost_connection(way: Lossy, scheme: str, digits: Any) -> None:
    core = way.core(scheme)
    kept = core.get_default_context("CPU").create_tensor(ov.Type.f32, [1, 64], {})
    for number in range(TIMES):
        pixels = ROW + number
        kept.copy_from(ov.Tensor(pixels))
        way.lose()
        request = core.compile_model(DIGITS, "CPU", F32).create_infer_request()
        way.lose()
        request.set_input_tensor(kept)
        np.testing.assert_allclose(request.infer()[0], digits(pixels)[0], atol=1e-5)
