"""OpenVINO Model Server's configuration endpoints, over its file."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs
from tests.plain_http import plain_client

from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, echo_spec
from inferwire_server.server import compose
from inferwire_server.settings import Settings
from inferwire_server.transport.http.server import http_server
from inferwire_server.transport.rest.app import create_app

OK = {"error_code": "OK", "error_message": "OK"}
AVAILABLE = {"version": "1", "state": "AVAILABLE", "status": OK}


def configure(folder: Path, *names: str, **fields: object) -> Path:
    for name in names:
        (folder / name / "1").mkdir(parents=True, exist_ok=True)
        (folder / name / "1/model.onnx").touch()
    models = [{"config": {"name": name, "base_path": name, **fields}} for name in names]
    (folder / "config.json").write_text(json.dumps({"model_config_list": models}))
    return folder / "config.json"


@pytest.fixture
def allowed() -> bool:
    return True


@pytest.fixture
async def client(tmp_path: Path, allowed: bool) -> AsyncGenerator[httpx.AsyncClient, None]:
    settings = Settings(config=configure(tmp_path, "a", "broken"), allow_model_control=allowed)
    backend = FakeBackend({name: FakeModel(echo_spec(name)) for name in "abc"})
    with capture_logs():
        async with compose(settings, backend) as server:
            await server.loader.sync()
            app = create_app(server.services, server.metrics.text, 1000)
            async with (
                http_server(app, "127.0.0.1", 0) as http,
                plain_client(base_url=f"http://127.0.0.1:{http.port}", timeout=30) as opened,
            ):
                yield opened


async def test_the_states_are_said_as_its_clients_know_them(client: httpx.AsyncClient) -> None:
    failed = {"error_code": "UNKNOWN", "error_message": "the fake runtime has no model 'broken'"}
    assert (await client.get("/v1/config")).json() == {
        "a": {"model_version_status": [AVAILABLE]},
        "broken": {"model_version_status": [{"version": "1", "state": "LOADING", "status": failed}]},
    }


async def test_nothing_new_is_200_and_something_201(client: httpx.AsyncClient, tmp_path: Path) -> None:
    unchanged = await client.post("/v1/config/reload")
    assert unchanged.status_code == 200
    configure(tmp_path, "a", "b", "c")
    changed = await client.post("/v1/config/reload")
    assert changed.status_code == 201
    assert changed.json() == {name: {"model_version_status": [AVAILABLE]} for name in "abc"}
    configure(tmp_path, "a", "b", "c", nireq=3)
    assert (await client.post("/v1/config/reload")).status_code == 201
    assert (await client.post("/v1/config/reload")).status_code == 200


async def test_a_broken_file_is_told_and_what_serves_serves_on(client: httpx.AsyncClient, tmp_path: Path) -> None:
    configure(tmp_path, "a", shape="all")
    refused = await client.post("/v1/config/reload")
    assert refused.status_code == 400
    assert "model 'a': shape is \"all\"" in refused.json()["error"]
    states: dict[str, Any] = (await client.get("/v1/config")).json()
    assert states["a"]["model_version_status"] == [AVAILABLE]


async def test_an_unloaded_model_is_at_its_end(client: httpx.AsyncClient) -> None:
    await client.post("/v2/repository/models/a/unload")
    states = (await client.get("/v1/config")).json()
    assert states["a"]["model_version_status"] == [{"version": "1", "state": "END", "status": OK}]


@pytest.mark.parametrize("allowed", [False])
async def test_a_reload_has_to_be_allowed(client: httpx.AsyncClient) -> None:
    refused = await client.post("/v1/config/reload")
    assert refused.status_code == 403
    assert "--allow-model-control" in refused.json()["error"]
    assert (await client.get("/v1/config")).status_code == 200
