"""A voice detector with states, in use by many at once: chunk by chunk as if each had it to itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import openvino
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tests.system.proxy import Proxy
from tritonclient.utils import InferenceServerException

import inferwire as ov
from inferwire_cli.server_process import HOST, ServerProcess, running_server

NAME = "silero_vad_stateful"
SILERO = Path(__file__).resolve().parents[2] / "deploy/models" / NAME
FLAGS = ("--device", "CPU", "--property", "INFERENCE_PRECISION_HINT=f32")
CHUNKS = 12


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with running_server(SILERO, *FLAGS) as started:
        yield started


@pytest.fixture(scope="module")
def local() -> Any:
    return openvino.Core().compile_model(SILERO / f"1/{NAME}.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})


def speech(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((CHUNKS, 1, 576)).astype(np.float32)


def locally(local: Any, chunks: Any) -> Any:
    request = local.create_infer_request()
    return np.array([request.infer([chunk])[0] for chunk in chunks])


def test_two_interleaved_sessions_equal_two_local_requests(server: ServerProcess, local: Any) -> None:
    speakers = [speech(0), speech(1)]
    cores = [ov.Core(server.grpc_address) for _ in speakers]
    requests = [core.served_model(NAME).create_infer_request() for core in cores]
    heard = [
        [request.infer([chunk])[0] for request, chunk in zip(requests, pair, strict=True)]
        for pair in zip(*speakers, strict=True)
    ]
    for index, chunks in enumerate(speakers):
        np.testing.assert_allclose([row[index] for row in heard], locally(local, chunks), atol=1e-6)


def test_asynchronous_requests_of_one_session_keep_apart(server: ServerProcess, local: Any) -> None:
    speakers = [speech(seed) for seed in range(4)]
    compiled = ov.Core(server.grpc_address).served_model(NAME)
    requests = [compiled.create_infer_request() for _ in speakers]
    heard: list[list[Any]] = [[] for _ in speakers]
    for chunk in range(CHUNKS):
        for request, chunks in zip(requests, speakers, strict=True):
            request.start_async([chunks[chunk]])
        for own, request in zip(heard, requests, strict=True):
            request.wait()
            own.append(request.results[0])
    for own, chunks in zip(heard, speakers, strict=True):
        np.testing.assert_allclose(own, locally(local, chunks), atol=1e-6)


def test_states_outlive_an_outage_in_which_they_are_asked_for(server: ServerProcess, local: Any) -> None:
    chunks = speech(0)
    with Proxy(server.grpc_port) as proxy:
        core = ov.Core(f"{HOST}:{proxy.port}")
        request = core.served_model(NAME).create_infer_request()
        heard = [request.infer([chunk])[0] for chunk in chunks[:6]]
        state = request.query_state()[0]
        before = state.state.data.copy()
        proxy.go_down()
        for touch in (lambda: state.state, state.reset, lambda: setattr(state, "state", ov.Tensor(before))):
            with pytest.raises(ov.ServerUnavailable):
                touch()
        proxy.come_back()
        np.testing.assert_array_equal(state.state.data, before)
        heard += [request.infer([chunk])[0] for chunk in chunks[6:]]
        np.testing.assert_allclose(heard, locally(local, chunks), atol=1e-6)
        core.close()


@pytest.mark.parametrize("ids", [(7, 8), ("anna", "bert")], ids=["numbers", "texts"])
@pytest.mark.parametrize("way", ["grpc", "http"])
def test_a_triton_client_s_sequences_equal_local_requests(
    server: ServerProcess, local: Any, way: str, ids: tuple[Any, Any]
) -> None:
    triton: Any = triton_grpc if way == "grpc" else triton_http
    speakers = dict(zip(ids, (speech(2), speech(3)), strict=True))
    heard: dict[Any, list[Any]] = {each: [] for each in ids}
    address = server.grpc_address if way == "grpc" else server.http_address
    with triton.InferenceServerClient(address) as client:
        given = triton.InferInput("input", [1, 576], "FP32")
        for chunk in range(CHUNKS):
            for each, chunks in speakers.items():
                given.set_data_from_numpy(chunks[chunk])
                flags = {"sequence_start": chunk == 0, "sequence_end": chunk == CHUNKS - 1}
                result = client.infer(NAME, [given], sequence_id=each, **flags)
                heard[each].append(result.as_numpy("output"))
        for each, chunks in speakers.items():
            np.testing.assert_allclose(heard[each], locally(local, chunks), atol=1e-6)
        with pytest.raises(InferenceServerException, match="START flag"):
            client.infer(NAME, [given], sequence_id=ids[0])


def test_a_large_id_is_the_same_over_grpc_where_its_field_has_a_sign(server: ServerProcess, local: Any) -> None:
    chunks = speech(6)
    heard: list[Any] = []
    clients: tuple[Any, Any] = triton_http, triton_grpc
    http, grpc = clients
    with (
        http.InferenceServerClient(server.http_address) as rest,
        grpc.InferenceServerClient(server.grpc_address) as rpc,
    ):
        # The larger half of the ids: as they are in JSON, and what a client without signs writes into a signed field.
        ids = (rest, http, 2**64 - 7), (rpc, grpc, -7)
        for chunk in range(CHUNKS):
            client, library, sequence_id = ids[chunk % 2]
            given = library.InferInput("input", [1, 576], "FP32")
            given.set_data_from_numpy(chunks[chunk])
            flags = {"sequence_start": chunk == 0, "sequence_end": chunk == CHUNKS - 1}
            heard.append(client.infer(NAME, [given], sequence_id=sequence_id, **flags).as_numpy("output"))
    np.testing.assert_allclose(heard, locally(local, chunks), atol=1e-6)


def take(answers: SimpleQueue[Any], result: Any, error: Any) -> None:
    answers.put((result, error))


def test_a_stream_keeps_its_sequences_in_order(server: ServerProcess, local: Any) -> None:
    speakers = {11: speech(4), 12: speech(5)}
    heard: dict[str, Any] = {}
    triton: Any = triton_grpc
    answers: SimpleQueue[Any] = SimpleQueue()
    with triton.InferenceServerClient(server.grpc_address) as client:
        client.start_stream(partial(take, answers))
        for chunk in range(CHUNKS):
            for each, chunks in speakers.items():
                given = triton.InferInput("input", [1, 576], "FP32")
                given.set_data_from_numpy(chunks[chunk])
                client.async_stream_infer(
                    NAME,
                    [given],
                    request_id=f"{each}-{chunk}",
                    sequence_id=each,
                    sequence_start=chunk == 0,
                    sequence_end=chunk == CHUNKS - 1,
                )
        for _ in range(2 * CHUNKS):
            result, error = answers.get(timeout=60)
            assert error is None
            heard[result.get_response().id] = result.as_numpy("output")
    for each, chunks in speakers.items():
        own = [heard[f"{each}-{chunk}"] for chunk in range(CHUNKS)]
        np.testing.assert_allclose(own, locally(local, chunks), atol=1e-6)


def test_without_a_sequence_every_inference_starts_from_fresh_states(server: ServerProcess, local: Any) -> None:
    for chunk in speech(6)[:3]:
        body = {"inputs": [{"name": "input", "shape": [1, 576], "datatype": "FP32", "data": chunk.ravel().tolist()}]}
        address = f"http://{server.http_address}/v2/models/{NAME}/infer"
        with urlopen(Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})) as answer:
            (output,) = json.load(answer)["outputs"]
        np.testing.assert_allclose(output["data"], locally(local, [chunk]).ravel(), atol=1e-6)


@pytest.mark.parametrize("flags", [(), ("--sequences-wait",)], ids=["refused", "waiting"])
def test_a_request_that_is_dropped_makes_room_for_another(local: Any, flags: tuple[str, ...]) -> None:
    with running_server(SILERO, *FLAGS, "--max-sequences", "1", *flags) as server:
        compiled = ov.Core(server.grpc_address).served_model(NAME)
        (chunk,) = speech(7)[:1]
        for _ in range(5):
            np.testing.assert_allclose(compiled.create_infer_request().infer([chunk])[0], locally(local, [chunk])[0])


def test_a_server_that_forgot_the_session_has_lost_the_states_and_says_how_to_go_on(local: Any) -> None:
    with running_server(SILERO, *FLAGS, "--session-grace-s", "0") as server:
        core = ov.Core(server.grpc_address)
        request = core.served_model(NAME).create_infer_request()
        (chunk,) = speech(8)[:1]
        request.infer([chunk])
        core.close()
        with pytest.raises(ov.SessionLost, match=r"call reset_state\(\) to begin anew"):
            request.infer([chunk])
        request.reset_state()
        np.testing.assert_allclose(request.infer([chunk])[0], locally(local, [chunk])[0], atol=1e-6)


def test_a_compiled_model_s_states_begin_anew_in_a_new_session(local: Any) -> None:
    with running_server(SILERO, *FLAGS, "--session-grace-s", "0", "--allow-uploads") as server:
        core = ov.Core(server.grpc_address)
        compiled = core.compile_model(SILERO / f"1/{NAME}.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        used, unused = compiled.create_infer_request(), compiled.create_infer_request()
        (chunk,) = speech(9)[:1]
        for request in (used, unused):
            request.infer([chunk])
        core.close()
        for _ in range(2):
            with pytest.raises(ov.SessionLost, match=r"call reset_state\(\) to begin anew"):
                used.infer([chunk])
        for request in (used, unused):
            request.reset_state()
            np.testing.assert_allclose(request.infer([chunk])[0], locally(local, [chunk])[0], atol=1e-6)
