"""A server to hold the files of `deploy/` against: its answers and its metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.deploy.expressions import RULES, LabelsOf, grouped
from tests.plain_http import plain_client

from inferwire_server.crew import ALONE
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, echo_spec
from inferwire_server.metrics.server import of_renewals, of_repository
from inferwire_server.server import compose
from inferwire_server.settings import Settings
from inferwire_server.sockets import listening

KEY = "the-key-of-the-tests"
OF_THE_SCRAPE = {"job", "instance"}


@pytest.fixture
async def http(tmp_path: Path) -> AsyncGenerator[httpx.AsyncClient, None]:
    """A client without a key, of a server that requires one and has a model loaded."""
    (tmp_path / "models/echo/1").mkdir(parents=True)
    (tmp_path / "models/echo/1/model.onnx").touch()
    (tmp_path / "keys").write_text(KEY)
    settings = Settings(
        model_repository=tmp_path / "models",
        api_key_file=tmp_path / "keys",
        allow_uploads=True,
        grpc_port=0,
        http_port=0,
    )
    async with compose(settings, FakeBackend({"echo": FakeModel(echo_spec("echo"))})) as composition:
        composition.metrics.add(lambda: of_renewals({"certificate": False}, 2e9))
        composition.metrics.add(lambda: of_repository(is_readable=True))
        await composition.loader.sync()
        composition.services.health.begin()
        async with (
            listening(settings, composition, ALONE, None) as sockets,
            plain_client(base_url=f"http://127.0.0.1:{sockets.http.port}", timeout=20) as client,
        ):
            yield client


@pytest.fixture
async def metrics(http: httpx.AsyncClient) -> str:
    """The text of /metrics after one call without a key, and one job."""
    shown = {"authorization": f"Bearer {KEY}"}
    assert (await http.get("/metrics")).status_code == 401
    given = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 2.0, 3.0, 4.0]}
    answered = await http.post("/v2/models/echo/infer", json={"inputs": [given]}, headers=shown)
    assert answered.status_code == 200, answered.text
    return (await http.get("/metrics", headers=shown)).text


@pytest.fixture
def labels_of(metrics: str) -> LabelsOf:
    """The labels of the metrics that the server writes and the rules make, with those that Prometheus adds."""
    found: defaultdict[str, set[str]] = defaultdict(lambda: set(OF_THE_SCRAPE))
    found |= {"up": set(OF_THE_SCRAPE), "ALERTS": {"alertname", "alertstate"}}
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            found[sample.name] |= set(sample.labels)
    for rule in RULES:
        if "record" in rule:
            found[rule["record"]] |= grouped(rule["expr"]) - {"le"}
    return dict(found)
