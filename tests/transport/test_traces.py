"""What traces tell of inferences that do not end well, and of several in one job."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import pytest
import pytest_asyncio
from tests.collector import Collected, Collector, collecting
from tests.plain_http import plain_client
from tests.waiting import LIMIT_S

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, Gate, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.server import compose
from inferwire_server.service import Services
from inferwire_server.service.values import Inference, ServedModel, Wanted
from inferwire_server.settings import Settings

Models = dict[str, FakeModel]
SLOW_S = 0.05
ROWS = np.arange(1, 4, dtype=np.float32).repeat(4).reshape(3, 4)


def fail(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    raise ServingError(Code.INFERENCE_FAILED, "failed in its slot")


def blame(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    raise ServingError(Code.INVALID_INPUT, "no picture")


def fail_at_second(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Take some time for one of the rows, and fail at the second."""
    row = bytes(inputs[0].data)
    time.sleep(SLOW_S if row in ROWS.tobytes() else 0)
    return fail(inputs) if row == ROWS[1].tobytes() else tuple(inputs)


@pytest.fixture
def models() -> Models:
    return {
        "slow": FakeModel(echo_spec("slow"), compute=fail_at_second),
        "fail": FakeModel(echo_spec("fail"), compute=fail),
        "blame": FakeModel(echo_spec("blame"), compute=blame),
        "held": FakeModel(echo_spec("held"), gate=Gate(is_open=False), optimal_slots=1),
    }


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as opened:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", opened.address)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        yield opened


@pytest.fixture
def settings(settings: Settings, collector: Collector) -> Settings:
    return replace(settings, queue_capacity=1, slots=1, traces=True)


@pytest_asyncio.fixture
async def client(rest_address: str) -> AsyncIterator[httpx.AsyncClient]:
    async with plain_client(base_url=f"http://{rest_address}/v2/models") as opened:
        yield opened


async def infer(client: httpx.AsyncClient, model: str, **parameters: int) -> int:
    """Infer with a model, and give the status of the answer."""
    row = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [0, 1, 2, 3]}
    answer = await client.post(f"/{model}/infer", json={"inputs": [row], "parameters": parameters})
    return answer.status_code


async def until_queued(load: Callable[[], Any], jobs: int) -> None:
    """Wait until so many jobs are queued."""
    async with asyncio.timeout(LIMIT_S):
        while (await load()).queued < jobs:  # noqa: ASYNC110 - nothing tells of a job that waits
            await asyncio.sleep(0.01)


async def taken(collector: Collector, *names: str) -> Collected:
    """Wait for the spans of a job, and give its own."""
    spans = await asyncio.to_thread(collector.take, len(names))
    assert {span.name for span in spans} == set(names)
    return next(span for span in spans if span.name == "infer")


async def test_a_failed_inference_says_why(client: httpx.AsyncClient, collector: Collector) -> None:
    assert await infer(client, "fail") == 500
    whole = await taken(collector, "infer", "queue", "inference")
    assert whole.error == "failed in its slot"
    assert whole.attributes["inferwire.outcome"] == "failed"
    assert whole.attributes["error.type"] == "INFERENCE_FAILED"


async def test_what_its_caller_is_to_blame_for_is_told_as_the_metrics_tell_it(
    client: httpx.AsyncClient, collector: Collector
) -> None:
    assert await infer(client, "blame") == 400
    whole = await taken(collector, "infer", "queue", "inference")
    assert whole.attributes["inferwire.outcome"] == "invalid"
    assert whole.attributes["error.type"] == "INVALID_INPUT"


async def test_what_did_not_run_has_no_time_in_a_slot(
    client: httpx.AsyncClient, collector: Collector, models: Models, load: Callable[[], Any]
) -> None:
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(infer(client, "held"))
        await asyncio.to_thread(models["held"].gate.wait_held, 1)
        waiting = tasks.create_task(infer(client, "held", timeout=2_000_000))
        await until_queued(load, 1)
        assert await infer(client, "held") == 429
        whole = await taken(collector, "infer")
        assert (whole.attributes["inferwire.outcome"], whole.attributes["error.type"]) == ("refused", "QUEUE_FULL")
        assert await waiting == 504
        whole = await taken(collector, "infer", "queue")
        assert whole.attributes["inferwire.outcome"] == "expired"
        assert whole.attributes["error.type"] == "DEADLINE_EXCEEDED"
        assert whole.ended_ns - whole.begun_ns >= 1_900_000_000
        running.cancel()
    whole = await taken(collector, "infer", "queue", "inference")
    assert (whole.attributes["inferwire.outcome"], whole.error) == ("cancelled", "")
    assert "error.type" not in whole.attributes


async def test_a_stack_is_one_span_that_says_what_failed(
    client: httpx.AsyncClient, services: Services, collector: Collector
) -> None:
    rows = Tensor(BY_NAME["f32"], ROWS.shape, ROWS.tobytes())
    stack = Inference(Wanted(ServedModel("slow")), (("x", rows),), len(ROWS))
    # Once the model is known to be quick, a slot takes several one by one. A busy machine makes it look slower.
    async with asyncio.timeout(LIMIT_S):
        while len(prepared := services.inference.prepare_stack(stack)) > 1:
            assert await infer(client, "slow") == 200
            await taken(collector, "infer", "queue", "inference")
    ended = asyncio.Event()
    services.inference.submit_prepared(prepared[0], lambda _: ended.set())
    await ended.wait()
    spans = {span.name: span for span in await asyncio.to_thread(collector.take, 3)}
    assert spans["infer"].attributes["inferwire.executions"] == len(ROWS)
    assert spans["infer"].error == "failed in its slot"
    # They run one after the other, all of that time in a slot.
    inference = spans["inference"]
    assert inference.ended_ns - inference.begun_ns >= len(ROWS) * SLOW_S * 1e9
    assert spans["queue"].ended_ns == inference.begun_ns


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is 'grpc', expected http/"),
        (
            "OTEL_TRACES_EXPORTER",
            "console",
            "OTEL_TRACES_EXPORTER is 'console', expected otlp, which --traces sends by",
        ),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "collector:4318",
            "is 'collector:4318', expected a URL such as http:",
        ),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "do not let --traces send any: max_queue_size must be a positive integer"),
    ],
)
async def test_variables_that_cannot_be_followed_are_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ServingError, match=sentence):
        async with compose(replace(settings, model_repository=None), FakeBackend({})):
            pass


async def test_what_sends_traces_may_not_be_installed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "inferwire_server.traces", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(
        ServingError, match=r"--traces is set, .* is not installed: install the extra inferwire\[traces"
    ):
        async with compose(replace(settings, model_repository=None), FakeBackend({})):
            pass
