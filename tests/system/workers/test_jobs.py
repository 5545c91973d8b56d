"""Jobs that one worker runs and others are asked for."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest
from tests.system.workers.conftest import ONE
from tests.system.workers.doors import V1, Door, inferred, job_request, refusal, rest_tensor, worker_of
from tests.waiting import LIMIT_S, wait_until

from inferwire_cli.server_process import ServerProcess
from inferwire_proto.inferwire.v1 import devices_pb2, inference_pb2


def start_over_rest(door: Door, model: str = "slow") -> str:
    started = door.rest("POST", f"/inferwire/v1/models/{model}/jobs", {"inputs": [rest_tensor("data", ONE)]})
    job_id = started.json["id"]
    assert (started.status, worker_of(job_id)) == (202, door.worker)
    assert ("location", f"/inferwire/v1/jobs/{job_id}") in started.headers
    return job_id


def start_over_grpc(door: Door, model: str = "slow") -> str:
    return door.call(f"{V1}.StartAsync", job_request(model, "data", ONE), inference_pb2.StartAsyncResponse).job_id


STARTS = pytest.mark.parametrize("start", [start_over_rest, start_over_grpc], ids=["rest", "grpc"])
ACROSS = pytest.mark.parametrize(("there", "here"), [(0, 1), (1, 0)], ids=["the lead's", "a follower's"])


@STARTS
@ACROSS
def test_a_job_is_waited_for_collected_and_released_over_rest_at_another_worker(
    doors: list[Door], start: Any, there: int, here: int
) -> None:
    path = f"/inferwire/v1/jobs/{start(doors[there])}"
    assert doors[here].rest("GET", f"{path}?wait_s=60").json["state"] == "finished"
    kept, released = (doors[here].rest("GET", f"{path}/result?release={release}") for release in ("false", "true"))
    assert kept.json == released.json
    assert inferred(released.json).size == 1
    for door in doors:
        gone = door.rest("GET", path)
        assert (gone.status, gone.json["code"]) == (404, "JOB_NOT_FOUND")


@STARTS
@ACROSS
def test_a_job_is_waited_for_collected_and_released_over_grpc_at_another_worker(
    doors: list[Door], start: Any, there: int, here: int
) -> None:
    job_id, door = start(doors[there]), doors[here]
    asked = inference_pb2.WaitRequest(job_id=job_id, timeout_us=60_000_000)
    assert door.call(f"{V1}.Wait", asked, inference_pb2.WaitResponse).state == inference_pb2.JOB_STATE_FINISHED
    wanted = inference_pb2.GetResultRequest(job_id=job_id, release=True)
    result = door.call(f"{V1}.GetResult", wanted, inference_pb2.GetResultResponse)
    assert len(result.raw[0]) == 4
    for each in doors:
        assert refusal(each.channel, f"{V1}.GetResult", wanted)[::2] == ("NOT_FOUND", "JOB_NOT_FOUND")


@STARTS
@ACROSS
def test_a_job_is_cancelled_at_another_worker_while_others_wait_for_it(
    doors: list[Door], start: Any, there: int, here: int
) -> None:
    job_id = start(doors[there], "long")
    asked = inference_pb2.WaitRequest(job_id=job_id)
    state = doors[here].call(f"{V1}.Wait", asked, inference_pb2.WaitResponse).state
    assert state in (inference_pb2.JOB_STATE_QUEUED, inference_pb2.JOB_STATE_RUNNING)
    assert doors[here].rest("GET", f"/inferwire/v1/jobs/{job_id}").json["state"] in ("queued", "running")
    waiting: Any = doors[here].channel.unary_unary(f"/{V1}/Wait", None, inference_pb2.WaitResponse.FromString)
    wait = waiting.future(inference_pb2.WaitRequest(job_id=job_id, timeout_us=60_000_000).SerializeToString())
    assert doors[here].rest("DELETE", f"/inferwire/v1/jobs/{job_id}").json["state"] == "cancelled"
    assert wait.result(LIMIT_S).state == inference_pb2.JOB_STATE_CANCELLED
    cancelled = inference_pb2.CancelRequest(job_id=job_id)
    doors[here].call(f"{V1}.Cancel", cancelled, inference_pb2.CancelResponse)


@ACROSS
def test_a_job_outlives_a_caller_that_leaves_while_it_waits_at_another_worker(
    server: ServerProcess, doors: list[Door], there: int, here: int
) -> None:
    path = f"/inferwire/v1/jobs/{start_over_rest(doors[there])}"
    asked = inference_pb2.WaitRequest(job_id=path.rpartition("/")[2], timeout_us=60_000_000)
    waiting: Any = doors[here].channel.unary_unary(f"/{V1}/Wait")
    waiting.future(asked.SerializeToString()).cancel()
    for _ in range(4):
        with closing(HTTPConnection(server.host, server.http_port)) as leaving:
            leaving.request("GET", f"{path}?wait_s=60")
    assert doors[here].rest("GET", f"{path}?wait_s=60").json["state"] == "finished"


def load_over_grpc(door: Door) -> int:
    """Give how many jobs a worker says that run and wait."""
    asked = devices_pb2.ListDevicesRequest()
    (device,) = door.call("inferwire.v1.DeviceService.ListDevices", asked, devices_pb2.ListDevicesResponse).devices
    return device.running + device.queued


def test_the_load_of_devices_is_that_of_all_workers(doors: list[Door]) -> None:
    # What other tests have cancelled leaves its slot a moment later.
    wait_until(lambda: load_over_grpc(doors[0]) == 0)
    jobs = [start_over_rest(door, "long") for door in doors]
    try:
        for door in doors:
            (over_rest,) = door.rest("GET", "/inferwire/v1/devices").json["devices"]
            assert over_rest["running"] + over_rest["queued"] == load_over_grpc(door) == 2
    finally:
        for door, job_id in zip(doors, jobs, strict=True):
            assert door.rest("DELETE", f"/inferwire/v1/jobs/{job_id}").status == 200
