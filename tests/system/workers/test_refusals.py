"""What is refused, is refused in the words of a server of one process, whichever worker is asked."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.system.workers.conftest import MODELS, ROW
from tests.system.workers.doors import OIP, V1, Door, oip_request, opened_doors, refusal, rest_tensor

from inferwire_cli.server_process import ServerProcess, running_server
from inferwire_proto.inferwire.v1 import inference_pb2, models_pb2
from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip

NAME = "silero_vad_stateful"
LONG = "9" * 5000
TOO_LARGE = b" " * (1 << 20) + b"{}"


class Both(NamedTuple):
    """Doors to a server of one process, and to one of several."""

    single: Door
    workers: list[Door]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with running_server(MODELS, "--workers", "3", "--max-http-body-mb", "1") as running:
        yield running


@pytest.fixture(scope="module")
def both(server: ServerProcess) -> Iterator[Both]:
    with (
        running_server(MODELS, "--max-http-body-mb", "1") as single,
        opened_doors(single, 1, "digits_mlp", "pixels", ROW) as (alone,),
        opened_doors(server, 3, "digits_mlp", "pixels", ROW) as doors,
    ):
        yield Both(alone, doors)


CHUNK = {"inputs": [rest_tensor("input", np.zeros((1, 576), np.float32))]}


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    [
        ("POST", "/v2/repository/models/digits_mlp/load", None, {}),
        ("POST", "/v2/repository/models/nobody/unload", None, {}),
        ("POST", "/v1/config/reload", None, {}),
        ("POST", "/v2/logging", {"log_info": False}, {}),
        ("POST", "/v2/logging", b"{", {}),
        ("POST", "/v2/logging", TOO_LARGE, {}),
        ("POST", "/v2/logging", gzip.compress(TOO_LARGE), {"content_encoding": "gzip"}),
        ("POST", "/v2/logging", b"{}", {"content_encoding": "br"}),
        ("POST", "/v2/systemsharedmemory/region/in/register", {"key": "/in", "byte_size": 4}, {}),
        ("GET", "/v2/models/nobody/stats", None, {}),
        ("GET", "/v2/models/na%C3%AFve%20%2F/versions/7/stats", None, {}),
        ("GET", "/inferwire/v1/jobs/nobody", None, {}),
        ("GET", "/inferwire/v1/jobs/nobody-1/result", None, {}),
        ("GET", "/inferwire/v1/jobs/na%C3%AFve-2?wait_s=x", None, {}),
        ("DELETE", "/inferwire/v1/jobs/nobody-0", None, {}),
        ("DELETE", f"/inferwire/v1/jobs/a-{LONG}", None, {}),
        ("POST", f"/v2/models/{NAME}/infer", b"[]", {}),
        ("POST", f"/v2/models/{NAME}/infer", CHUNK | {"parameters": {"sequence_id": 7}}, {}),
        ("POST", f"/v2/models/{NAME}/infer", TOO_LARGE, {}),
        ("POST", f"/v2/models/{NAME}/versions/7/infer", CHUNK, {}),
        ("POST", f"/inferwire/v1/models/{NAME}/jobs", {}, {}),
        ("HEAD", "/v2/logging/", None, {}),
        ("HEAD", "/inferwire/v1/jobs/nobody-1/result", None, {}),
        ("DELETE", "/metrics", None, {}),
        ("PATCH", "/v2/logging", None, {}),
        ("GET", "/metrics/", None, {}),
        ("BREW", "/metrics", None, {}),
    ],
)
def test_over_rest(both: Both, method: str, path: str, body: object, headers: dict[str, str]) -> None:
    said = both.single.rest(method, path, body, x_request_id="mine", **headers)
    assert said.status >= 400
    for door in both.workers:
        assert door.rest(method, path, body, x_request_id="mine", **headers) == said


def refused(door: Door) -> Counter[tuple[str, str]]:
    """Say how many requests were refused, by interface and code."""
    families = text_string_to_metric_families(door.rest("GET", "/metrics").body.decode())
    samples = [each for family in families for each in family.samples if "refused_requests_total" in each.name]
    return Counter({(each.labels["interface"], each.labels["code"]): int(each.value) for each in samples})


def test_what_workers_have_refused_is_counted_once_and_added_up(both: Both) -> None:
    before = refused(both.workers[0])
    calls: list[tuple[str, str, object]] = [
        ("POST", "/v2/models/nobody/infer", {}),  # answered where it arrives
        ("POST", f"/v2/models/{NAME}/infer", b"[]"),  # by the first worker
        ("GET", "/inferwire/v1/jobs/nobody-1", None),  # by the second
        ("GET", "/v2/models/nobody/stats", None),  # by all
        ("POST", "/v2/repository/models/digits_mlp/load", None),  # by all, one after the other
        ("POST", "/v2/logging", TOO_LARGE),  # before it is known by whom
    ]
    for door in both.workers:
        for method, path, body in calls:
            assert door.rest(method, path, body).status >= 400
        refusal(door.channel, f"{OIP}.ModelStatistics", oip.ModelStatisticsRequest(name="nobody"))
        refusal(door.channel, f"{V1}.Wait", inference_pb2.WaitRequest(job_id="nobody-2"))
        refusal(door.channel, f"{OIP}.ModelInfer", oip_request("nobody", "x", np.zeros((1, 1), np.float32)))
    expected = {
        ("rest", "MODEL_NOT_FOUND"): 1,
        ("rest", "INVALID_INPUT"): 2,
        ("rest", "JOB_NOT_FOUND"): 1,
        ("rest", "PERMISSION_DENIED"): 1,
        ("rest", "TOO_LARGE"): 1,
        ("grpc", "MODEL_NOT_FOUND"): 1,
        ("grpc", "INVALID_INPUT"): 1,
        ("grpc", "JOB_NOT_FOUND"): 1,
    }
    for door in both.workers:
        assert refused(door) - before == {labels: 3 * count for labels, count in expected.items()}


def sequence() -> oip.ModelInferRequest:
    request = oip_request(NAME, "input", np.zeros((1, 576), np.float32))
    request.parameters["sequence_id"].int64_param = 7
    return request


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        (f"{OIP}.RepositoryModelLoad", oip.RepositoryModelLoadRequest(model_name="digits_mlp")),
        (f"{OIP}.RepositoryModelUnload", oip.RepositoryModelUnloadRequest(model_name="naïve 模型 %")),
        (f"{OIP}.ModelStatistics", oip.ModelStatisticsRequest(name="naïve 模型 %\n")),
        (f"{OIP}.ModelStatistics", oip.ModelStatisticsRequest(name="模" * 5000)),
        (f"{OIP}.SystemSharedMemoryRegister", oip.SystemSharedMemoryRegisterRequest(name="in", key="/in", byte_size=4)),
        (f"{OIP}.ModelInfer", sequence()),
        (f"{OIP}.ModelInfer", oip.ModelInferRequest(model_name=NAME)),
        ("inferwire.v1.ModelService.LoadModel", models_pb2.LoadModelRequest(name="nobody")),
        ("inferwire.v1.ModelService.UnloadModel", models_pb2.UnloadModelRequest(name="digits_mlp")),
        (f"{V1}.Wait", inference_pb2.WaitRequest(job_id="nobody-1", timeout_us=1)),
        (f"{V1}.GetResult", inference_pb2.GetResultRequest(job_id="naïve-2")),
        (f"{V1}.Cancel", inference_pb2.CancelRequest(job_id=f"a-{LONG}")),
        (f"{V1}.Cancel", inference_pb2.CancelRequest()),
    ],
)
def test_over_grpc(both: Both, method: str, request_: Any) -> None:
    status, sentence, code = refusal(both.single.channel, method, request_)
    assert code
    for door in both.workers:
        assert refusal(door.channel, method, request_) == (status, sentence, code)


class NoMessage:
    """Bytes that are no message, where one is expected."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - as protobuf calls it
        return b"\xff\xff"


@pytest.mark.parametrize("method", [f"{V1}.Wait", f"{OIP}.ModelInfer", f"{OIP}.LogSettings", f"{OIP}.ModelStatistics"])
def test_what_is_no_message(both: Both, method: str) -> None:
    said = refusal(both.single.channel, method, NoMessage())
    assert said[2] == "INVALID_INPUT"
    for door in both.workers:
        assert refusal(door.channel, method, NoMessage()) == said
