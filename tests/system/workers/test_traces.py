"""Traces of inferences that one worker takes and another runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.collector import collecting
from tests.system.servers import log_lines, started, wait_for
from tests.system.workers.conftest import FLAGS, ROW
from tests.system.workers.doors import OIP, call, oip_request, opened_doors, rest_tensor

from inferwire_cli.server_process import HOST, free_ports, running_server, wait_until_ready
from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip

TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"
MODEL = "silero_vad_stateful"
CHUNK = np.zeros((1, 576), np.float32)


def test_a_request_is_part_of_its_callers_trace_and_has_one_id_whichever_worker_has_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
        with (
            running_server(repository, "--workers", "2", "--traces", *FLAGS) as server,
            opened_doors(server, 2, "digits_mlp", "pixels", ROW) as doors,
        ):
            parameters = {"sequence_id": 1, "sequence_start": True}
            body = {"inputs": [rest_tensor("input", CHUNK)], "parameters": parameters}
            request = oip_request(MODEL, "input", CHUNK)
            request.parameters["sequence_id"].int64_param = 2
            request.parameters["sequence_start"].bool_param = True
            ids: list[str] = []
            for door in doors:
                answer = door.rest("POST", f"/v2/models/{MODEL}/infer", body, traceparent=TRACEPARENT)
                assert answer.status == 200
                ids += [dict(answer.headers)["x-request-id"], "its own"]
                metadata = ("traceparent", TRACEPARENT), ("x-request-id", "its own")
                call(door.channel, f"{OIP}.ModelInfer", request, oip.ModelInferResponse, *metadata)
            wholes = [span for span in collector.take(3 * 2 * len(doors)) if span.name == "infer"]
            assert {(span.trace_id, span.parent_id) for span in wholes} == {(TRACE_ID, PARENT_ID)}
            assert sorted(span.attributes["inferwire.request_id"] for span in wholes) == sorted(ids)
            # All of them ran in the one worker that has the model's states.
            assert len({span.resource["service.instance.id"] for span in wholes}) == 1


def test_who_cannot_send_traces_says_which_worker_it_is(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{HOST}:{free_ports(1)[0]}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with started("--model-repository", str(repository), "--workers", "2", "--traces", *FLAGS) as (server, log):
        wait_until_ready(server, log)

        def unsent() -> list[object]:
            return [line.get("worker") for line in log_lines(log) if line["event"].startswith("traces are not sent")]

        with opened_doors(server, 2, "digits_mlp", "pixels", ROW):
            wait_for(server, lambda: len(unsent()) == 2, log)
        assert set(unsent()) == {1, 2}
