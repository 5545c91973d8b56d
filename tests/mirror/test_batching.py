"""Jobs that run together answer as if each had run alone, whichever way callers come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copytree
from typing import Any

import grpc
import httpx
import numpy as np
import openvino
import pytest
from numpy.typing import NDArray

import inferwire
from inferwire_cli.server_process import ServerProcess, running_server
from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb

MODELS = Path(__file__).parents[2] / "deploy/models"
DIGITS = MODELS / "digits_mlp/1/digits_mlp.xml"
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}
CALLERS = 24

Rows = NDArray[np.float32]
Way = Callable[[ServerProcess, list[Rows]], list[Rows]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that batches what it serves."""
    repository = tmp_path_factory.mktemp("repository")
    copytree(MODELS / "digits_mlp", repository / "digits_mlp")
    properties = ("--property", "INFERWIRE_MAX_BATCH=16", "--property", "INFERENCE_PRECISION_HINT=f32")
    with running_server(repository, "--allow-uploads", *properties) as started:
        yield started


def answers_of(compiled: Any, inputs: list[Rows]) -> list[Rows]:
    found: dict[int, Rows] = {}

    def keep(request: Any, index: int) -> None:
        found[index] = request.get_output_tensor().data.copy()

    queue = inferwire.AsyncInferQueue(compiled, CALLERS)
    queue.set_callback(keep)
    for index, rows in enumerate(inputs):
        queue.start_async(rows, index)
    queue.wait_all()
    return [found[index] for index in range(len(inputs))]


def served(server: ServerProcess, inputs: list[Rows]) -> list[Rows]:
    return answers_of(inferwire.Core(server.grpc_address).served_model("digits_mlp"), inputs)


def uploaded(server: ServerProcess, inputs: list[Rows]) -> list[Rows]:
    core = inferwire.Core(server.grpc_address)
    return answers_of(core.compile_model(DIGITS, "CPU", EXACT | {"INFERWIRE_MAX_BATCH": 16}), inputs)


def over_grpc(server: ServerProcess, inputs: list[Rows]) -> list[Rows]:
    with grpc.insecure_channel(server.grpc_address) as channel, ThreadPoolExecutor(CALLERS) as callers:
        call: Any = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=pb.ModelInferRequest.SerializeToString,
            response_deserializer=pb.ModelInferResponse.FromString,
        )

        def infer(rows: Rows) -> Rows:
            tensor = pb.ModelInferRequest.InferInputTensor(name="pixels", datatype="FP32", shape=rows.shape)
            request = pb.ModelInferRequest(
                model_name="digits_mlp", inputs=[tensor], raw_input_contents=[rows.tobytes()]
            )
            return np.frombuffer(call(request).raw_output_contents[0], np.float32).reshape(-1, 10)

        return list(callers.map(infer, inputs))


def over_rest(server: ServerProcess, inputs: list[Rows]) -> list[Rows]:
    url = f"http://{server.host}:{server.http_port}/v2/models/digits_mlp/infer"
    with httpx.Client(trust_env=False, timeout=60) as client, ThreadPoolExecutor(CALLERS) as callers:

        def infer(rows: Rows) -> Rows:
            tensor = {"name": "pixels", "datatype": "FP32", "shape": rows.shape, "data": rows.ravel().tolist()}
            answer = client.post(url, json={"inputs": [tensor]}).raise_for_status().json()["outputs"][0]
            return np.array(answer["data"], np.float32).reshape(answer["shape"])

        return list(callers.map(infer, inputs))


@pytest.mark.parametrize("way", [served, uploaded, over_grpc, over_rest])
def test_every_caller_gets_the_answer_to_its_own_rows(server: ServerProcess, way: Way) -> None:
    random = np.random.default_rng(1)
    inputs = [random.random((1 + index % 3, 64), np.float32) * 16 for index in range(300)]
    compiled = openvino.Core().compile_model(DIGITS, "CPU", EXACT)
    answers = way(server, inputs)
    for rows, answer in zip(inputs, answers, strict=True):
        np.testing.assert_allclose(answer, compiled(rows)[0], atol=1e-5)


def test_what_is_cancelled_among_stacks_ends_and_the_others_get_their_answers(server: ServerProcess) -> None:
    random = np.random.default_rng(2)
    inputs = [random.random((1, 64), np.float32) * 16 for _ in range(200)]
    compiled = openvino.Core().compile_model(DIGITS, "CPU", EXACT)
    remote = inferwire.Core(server.grpc_address).served_model("digits_mlp")
    requests = [remote.create_infer_request() for _ in inputs]
    cancelled = set(range(0, len(inputs), 8))
    for index, (request, rows) in enumerate(zip(requests, inputs, strict=True)):
        request.start_async(rows)
        # One at once, the next while others have followed it.
        if index % 16 == 0:
            request.cancel()
        if index % 16 == 13:
            requests[index - 5].cancel()
    for index, (request, rows) in enumerate(zip(requests, inputs, strict=True)):
        try:
            request.wait()
        except inferwire.Cancelled:
            assert index in cancelled
            continue
        np.testing.assert_allclose(request.get_output_tensor().data, compiled(rows)[0], atol=1e-5)


def test_a_model_says_how_it_batches(server: ServerProcess) -> None:
    core = inferwire.Core(server.grpc_address)
    compiled = core.compile_model(DIGITS, "CPU", {"INFERWIRE_MAX_BATCH": 8, "INFERWIRE_MAX_BATCH_DELAY_US": 50})
    assert compiled.get_property("INFERWIRE_MAX_BATCH") == 8
    assert compiled.get_property("INFERWIRE_MAX_BATCH_DELAY_US") == 50
    assert core.served_model("digits_mlp").get_property("INFERWIRE_MAX_BATCH") == 16
    assert core.compile_model(DIGITS, "CPU").get_property("INFERWIRE_MAX_BATCH") == 0


def test_a_model_that_keeps_states_is_refused_with_a_sentence(server: ServerProcess) -> None:
    core = inferwire.Core(server.grpc_address)
    path = MODELS / "silero_vad_stateful/1/silero_vad_stateful.xml"
    with pytest.raises(RuntimeError, match=r"cannot be batched: it keeps states .*, which belong to one caller"):
        core.compile_model(path, "CPU", {"INFERWIRE_MAX_BATCH": 16})
