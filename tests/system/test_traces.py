"""Traces of a whole server's inferences, as a collector gets them."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from queue import SimpleQueue
from time import time_ns
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton
from tests.collector import Collected, Collector, collecting
from tests.system.servers import log_lines, started
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire_cli.server_process import HOST, ServerProcess, end, free_ports, tail, wait_until_ready

MODELS = Path(__file__).resolve().parents[2] / "deploy" / "models"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01"}
MOMENT_NS = 50_000_000
PIXELS = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 64)
REQUEST = {"inputs": [{"name": "pixels", "datatype": "FP32", "shape": [1, 64], "data": PIXELS.ravel().tolist()}]}


@pytest.fixture(scope="module")
def collector() -> Generator[Collector]:
    with collecting() as opened:
        yield opened


@pytest.fixture(scope="module")
def server(collector: Collector) -> Generator[ServerProcess]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(ENDPOINT, collector.address)
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        environment.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=tests")
        with started("--model-repository", str(MODELS), "--traces") as (running, log):
            wait_until_ready(running, log)
            yield running
            end(running)


def family(spans: list[Collected]) -> tuple[Collected, Collected, Collected]:
    """Give a job's span and those below it, whichever came first."""
    whole, queue, inference = (
        next(span for span in spans if span.name == name) for name in ("infer", "queue", "inference")
    )
    return whole, queue, inference


def check_a_job(spans: list[Collected], since_ns: int, **further: str) -> Collected:
    """Check what is told of a job that has ended well, `further` attributes too, and give its span."""
    whole, queue, inference = family(spans)
    assert {span.trace_id for span in spans} == {whole.trace_id}
    assert {queue.parent_id, inference.parent_id} == {whole.id}
    assert [span.kind for span in (whole, queue, inference)] == [
        "SPAN_KIND_SERVER",
        "SPAN_KIND_INTERNAL",
        "SPAN_KIND_INTERNAL",
    ]
    times = whole.begun_ns, queue.begun_ns, queue.ended_ns, inference.begun_ns, inference.ended_ns
    assert list(times) == sorted(times)
    assert whole.ended_ns == inference.ended_ns
    # What is timed by another clock is moved to this one, which may be a moment off.
    assert since_ns - MOMENT_NS <= whole.begun_ns <= whole.ended_ns <= time_ns() + MOMENT_NS
    assert whole.attributes == {
        "inferwire.model": "digits_mlp",
        "inferwire.version": "1",
        "inferwire.device": "CPU",
        "inferwire.executions": 1,
        "inferwire.outcome": "finished",
    } | {f"inferwire.{name}": value for name, value in further.items()}
    assert whole.error == ""
    return whole


def test_a_request_is_part_of_its_callers_trace(server: ServerProcess, collector: Collector) -> None:
    url = f"http://{server.http_address}/v2/models/digits_mlp/infer"
    with httpx.Client() as client:
        since_ns = time_ns()
        answer = client.post(url, json=REQUEST, headers=TRACEPARENT).raise_for_status()
        whole = check_a_job(collector.take(3), since_ns, request_id=answer.headers["x-request-id"])
        assert (whole.trace_id, whole.parent_id) == (TRACE_ID, PARENT_ID)
        # The next on the same connection names no trace.
        client.post(url, json=REQUEST, headers={"x-request-id": "its own"}).raise_for_status()
        whole = check_a_job(collector.take(3), since_ns, request_id="its own")
        assert whole.trace_id != TRACE_ID
        assert whole.parent_id == ""


def test_the_collector_learns_who_sends(server: ServerProcess, collector: Collector) -> None:
    httpx.post(f"http://{server.http_address}/v2/models/digits_mlp/infer", json=REQUEST).raise_for_status()
    resource = collector.take(3)[0].resource
    assert resource["service.name"] == "inferwire"
    assert resource["service.instance.id"]
    assert resource["deployment.environment.name"] == "tests"


def test_a_call_is_part_of_its_callers_trace(server: ServerProcess, collector: Collector) -> None:
    asked: Any = triton.InferInput("pixels", [1, 64], "FP32")
    asked.set_data_from_numpy(PIXELS)
    since_ns = time_ns()
    with triton.InferenceServerClient(server.grpc_address) as client:
        client.infer("digits_mlp", [asked], headers=TRACEPARENT | {"x-request-id": "its own"})
        whole = check_a_job(collector.take(3), since_ns, request_id="its own")
        assert (whole.trace_id, whole.parent_id) == (TRACE_ID, PARENT_ID)
        client.infer("digits_mlp", [asked])
        assert check_a_job(collector.take(3), since_ns).parent_id == ""


def test_what_its_caller_does_not_sample_is_not_sent(server: ServerProcess, collector: Collector) -> None:
    url = f"http://{server.http_address}/v2/models/digits_mlp/infer"
    unsampled = {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-00"}
    httpx.post(url, json=REQUEST, headers=unsampled).raise_for_status()
    httpx.post(url, json=REQUEST, headers=TRACEPARENT).raise_for_status()
    assert family(collector.take(3))[0].parent_id == PARENT_ID
    httpx.post(url, json=REQUEST, headers={"traceparent": "nonsense"}).raise_for_status()
    assert family(collector.take(3))[0].trace_id != TRACE_ID


def test_inferences_of_a_session_have_traces_of_their_own(server: ServerProcess, collector: Collector) -> None:
    model = ov.Core(server.grpc_address).served_model("digits_mlp")
    model({0: PIXELS})
    first = check_a_job(collector.take(3), 0)
    model({0: PIXELS})
    second = check_a_job(collector.take(3), 0)
    assert len({first.trace_id, second.trace_id, TRACE_ID}) == 3
    assert (first.parent_id, second.parent_id) == ("", "")


def test_what_comes_over_a_stream_has_traces_of_its_own(server: ServerProcess, collector: Collector) -> None:
    asked: Any = triton.InferInput("pixels", [1, 64], "FP32")
    asked.set_data_from_numpy(PIXELS)
    errors: SimpleQueue[Any] = SimpleQueue()

    def take(result: Any, error: Any) -> None:
        errors.put(error)

    with triton.InferenceServerClient(server.grpc_address) as client:
        client.start_stream(take, headers=TRACEPARENT)
        client.async_stream_infer("digits_mlp", [asked])
        assert errors.get(timeout=LIMIT_S) is None
    assert check_a_job(collector.take(3), 0).parent_id == ""


def test_a_look_at_states_is_no_inference(server: ServerProcess, collector: Collector) -> None:
    core = ov.Core(server.grpc_address)
    request = core.served_model("silero_vad_stateful").create_infer_request()
    request.infer([np.zeros((1, 576), np.float32)])
    assert family(collector.take(3))[0].attributes["inferwire.model"] == "silero_vad_stateful"
    assert request.query_state()[0].state.data.size
    core.served_model("digits_mlp")({0: PIXELS})
    check_a_job(collector.take(3), 0)


def test_the_protocol_says_that_inferences_are_traced(server: ServerProcess) -> None:
    url = f"http://{server.http_address}/v2/trace/setting"
    assert httpx.get(url).json()["trace_level"] == ["TIMESTAMPS"]
    assert httpx.post(url, json={"trace_level": ["TIMESTAMPS"]}).json()["trace_mode"] == "opentelemetry"
    refused = httpx.post(url, json={"trace_level": ["OFF"]})
    assert refused.status_code == 501
    assert "expected TIMESTAMPS: --traces alone changes what is traced" in refused.json()["error"]


def test_the_last_traces_are_sent_before_the_end(monkeypatch: pytest.MonkeyPatch, collector: Collector) -> None:
    monkeypatch.setenv(ENDPOINT, collector.address)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    with started("--model-repository", str(MODELS), "--traces") as (server, log):
        wait_until_ready(server, log)
        url = f"http://{server.http_address}/v2/models/digits_mlp/infer"
        answer = httpx.post(url, json=REQUEST).raise_for_status()
        assert collector.spans.empty()
        end(server)
        assert server.process.returncode == 0
        check_a_job(collector.take(3), 0, request_id=answer.headers["x-request-id"])


@pytest.mark.parametrize("is_there", [True, False], ids=["it does not answer", "it is not there"])
def test_a_collector_that_takes_nothing_holds_up_nobody(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    (nowhere,) = free_ports(1)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    with collecting() as collector:
        collector.answers.clear()
        monkeypatch.setenv(ENDPOINT, collector.address if is_there else f"http://{HOST}:{nowhere}")
        with started("--model-repository", str(MODELS), "--traces") as (server, log):
            wait_until_ready(server, log)
            httpx.post(f"http://{server.http_address}/v2/models/digits_mlp/infer", json=REQUEST).raise_for_status()
            end(server)
            assert server.process.returncode == 0
            events = [line["event"] for line in log_lines(log)]
            assert "the last traces may not have been sent: the collector does not take them" in events, tail(log)


def test_a_way_of_sending_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with started("--model-repository", str(MODELS), "--traces") as (server, log):
        assert server.process.wait(timeout=60) == 1
        assert "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc', expected http/protobuf" in tail(log)
