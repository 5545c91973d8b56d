"""Inferences at several workers, counted as one server's; and what callers may learn of there being several."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from queue import SimpleQueue
from typing import Any

import numpy as np
import openvino
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.system.workers.conftest import F32, MODELS, ROW
from tests.system.workers.doors import OIP, Door, call, inferred, oip_request, own_channel, refusal, rest, rest_tensor
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire_cli.server_process import ServerProcess
from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip


def run_counts(door: Door) -> list[int]:
    """Say how often the digits have run, in every way to ask."""
    (over_rest,) = door.rest("GET", "/v2/models/digits_mlp/stats").json["model_stats"]
    asked = oip.ModelStatisticsRequest(name="digits_mlp")
    (over_grpc,) = door.call(f"{OIP}.ModelStatistics", asked, oip.ModelStatisticsResponse).model_stats
    families = text_string_to_metric_families(door.rest("GET", "/metrics").body.decode())
    wanted = {"model": "digits_mlp", "outcome": "finished"}
    finished = sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "inferwire_jobs_total" and wanted.items() <= sample.labels.items()
    )
    return [over_rest["inference_count"], over_grpc.inference_count, int(finished)]


def test_many_connections_at_once_get_openvino_s_answers_and_are_all_counted(
    server: ServerProcess, doors: list[Door], digits: Any
) -> None:
    connections, each = 24, 10
    rows = np.random.default_rng(0).random((connections, each, 1, 64), np.float32)

    def infer_over_rest(own: Any) -> list[Any]:
        with closing(HTTPConnection(server.host, server.http_port, timeout=LIMIT_S)) as http:
            bodies = [{"inputs": [rest_tensor("pixels", row)]} for row in own]
            return [inferred(rest(http, "POST", "/v2/models/digits_mlp/infer", body).json) for body in bodies]

    def infer_over_grpc(own: Any) -> list[Any]:
        with own_channel(server) as channel:
            requests = [oip_request("digits_mlp", "pixels", row) for row in own]
            answers = [call(channel, f"{OIP}.ModelInfer", request, oip.ModelInferResponse) for request in requests]
            return [np.frombuffer(answer.raw_output_contents[0], np.float32) for answer in answers]

    before = run_counts(doors[0])
    with ThreadPoolExecutor(connections) as threads:
        running = [threads.submit((infer_over_rest, infer_over_grpc)[i % 2], own) for i, own in enumerate(rows)]
        found = [run.result(LIMIT_S) for run in running]
    expected = [[digits([row])[0][0] for row in own] for own in rows]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for door in doors:
        assert np.subtract(run_counts(door), before).tolist() == [connections * each] * 3


def speech(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((8, 1, 576)).astype(np.float32)


def locally(chunks: Any) -> Any:
    request: Any = (
        openvino.Core()
        .compile_model(MODELS / "silero_vad_stateful/1/silero_vad_stateful.xml", "CPU", F32)
        .create_infer_request()
    )
    return [request.infer([chunk])[0].item() for chunk in chunks]


def test_a_sequence_goes_on_whichever_worker_has_its_next_request(doors: list[Door]) -> None:
    chunks = speech(0)
    heard: dict[str, list[float]] = {"rest": [], "packed": [], "grpc": []}
    for index, chunk in enumerate(chunks):
        door = doors[index // 2 % 2]
        flags = {"sequence_start": index == 0, "sequence_end": index == len(chunks) - 1}
        body = {"inputs": [rest_tensor("input", chunk)], "parameters": {"sequence_id": "rest", **flags}}
        path = "/v2/models/silero_vad_stateful/infer"
        heard["rest"].append(inferred(door.rest("POST", path, body).json).item())
        body["parameters"] = {"sequence_id": "packed", **flags}
        packed = gzip.compress(json.dumps(body).encode())
        answer = door.rest("POST", path, packed, content_encoding="gzip", accept_encoding="gzip")
        assert ("content-encoding", "gzip") in answer.headers
        heard["packed"].append(inferred(json.loads(gzip.decompress(answer.body))).item())
        request = oip_request("silero_vad_stateful", "input", chunk)
        request.parameters["sequence_id"].string_param = "grpc"
        for name, value in flags.items():
            request.parameters[name].bool_param = value
        (raw,) = door.call(f"{OIP}.ModelInfer", request, oip.ModelInferResponse).raw_output_contents[:1]
        heard["grpc"].append(np.frombuffer(raw, np.float32).item())
    expected = locally(chunks)
    for each in heard.values():
        np.testing.assert_allclose(each, expected, atol=1e-6)


def put(found: SimpleQueue[tuple[int, Any]], request: ov.InferRequest, key: int) -> None:
    found.put((key, request.results[0].copy()))


def test_programs_compile_and_queue_on_whichever_worker_they_are(server: ServerProcess, digits: Any) -> None:
    rows = np.random.default_rng(1).random((8, 1, 64), np.float32)
    expected = [digits([row])[0] for row in rows]
    for index in range(6):
        core = ov.Core(server.grpc_address)
        uploaded = core.compile_model(MODELS / "digits_mlp/1/digits_mlp.xml", "CPU", F32)
        compiled = uploaded if index % 2 else core.served_model("digits_mlp")
        queue, found = ov.AsyncInferQueue(compiled, 3), SimpleQueue[tuple[int, Any]]()
        queue.set_callback(partial(put, found))
        for key, row in enumerate(rows):
            queue.start_async([row], key)
        queue.wait_all()
        results = dict(found.get_nowait() for _ in rows)
        np.testing.assert_allclose([results[key] for key in range(len(rows))], expected, atol=1e-6)
        core.close()


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("path", ["/metrics", "/inferwire/v1/jobs/a-0", "/inferwire/v1/jobs/a-1", "/v2/models/stats"])
def test_an_answer_has_one_id_and_that_is_the_caller_s(doors: list[Door], at: int, path: str) -> None:
    answer = doors[at].rest("GET", path, x_request_id="mine")
    names = [name for name, _ in answer.headers]
    assert ("x-request-id", "mine") in answer.headers
    assert len(names) == len(set(names))


@pytest.mark.parametrize("at", [0, 1])
def test_head_is_answered_by_whom_get_is_without_a_body(doors: list[Door], at: int) -> None:
    assert (doors[at].rest("HEAD", "/metrics").status, doors[at].rest("HEAD", "/metrics").body) == (200, b"")
    for worker in (0, 1):
        body = {"inputs": [rest_tensor("pixels", ROW)]}
        started = doors[worker].rest("POST", "/inferwire/v1/models/digits_mlp/jobs", body)
        assert doors[at].rest("HEAD", f"/inferwire/v1/jobs/{started.json['id']}").status == 200


@pytest.mark.parametrize("mark", ["", "-alone", "0" * 32, "0" * 32 + "-alone"])
@pytest.mark.parametrize("at", [0, 1])
def test_what_workers_ask_each_other_nobody_else_may(doors: list[Door], at: int, mark: str) -> None:
    forged = ("inferwire-crew", mark)
    channel, request = doors[at].channel, oip.ServerLiveRequest()
    unknown = refusal(channel, "inferwire.Nobody.Http", request, forged)
    assert refusal(channel, "inferwire.Crew.Http", request, forged) == unknown
    assert refusal(channel, "inferwire.Crew.Http", request) == unknown
    asked = oip.ModelStatisticsRequest(name="digits_mlp")
    forging = call(channel, f"{OIP}.ModelStatistics", asked, oip.ModelStatisticsResponse, forged)
    assert forging == call(channel, f"{OIP}.ModelStatistics", asked, oip.ModelStatisticsResponse)
