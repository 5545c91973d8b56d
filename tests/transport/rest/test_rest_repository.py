"""The repository extension over REST, with Triton's client among the callers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs
from tests.plain_http import plain_client, with_triton

from inferwire_proto.errors import Code
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, echo_spec
from inferwire_server.server import compose
from inferwire_server.settings import Settings
from inferwire_server.transport.http.server import http_server
from inferwire_server.transport.oip.metadata import EXTENSIONS
from inferwire_server.transport.rest.app import create_app

INDEX = [
    {"name": "broken", "version": "1", "state": "UNAVAILABLE", "reason": "the fake runtime has no model 'broken'"},
    {"name": "m", "version": "1", "state": "READY", "reason": ""},
]


@pytest.fixture
def allowed() -> bool:
    return True


@pytest.fixture
async def client(tmp_path: Path, allowed: bool) -> AsyncGenerator[httpx.AsyncClient, None]:
    for name in ("m", "broken"):
        (tmp_path / f"{name}.onnx").touch()
    settings = Settings(model_repository=tmp_path, allow_model_control=allowed)
    with capture_logs():
        async with compose(settings, FakeBackend({"m": FakeModel(echo_spec("m"))})) as server:
            await server.loader.sync()
            server.services.health.begin()
            app = create_app(server.services, server.metrics.text, 1000)
            async with (
                http_server(app, "127.0.0.1", 0) as http,
                plain_client(base_url=f"http://127.0.0.1:{http.port}") as opened,
            ):
                yield opened


async def post(client: httpx.AsyncClient, path: str, body: Any = None) -> httpx.Response:
    return await client.post(f"/v2/repository/{path}", **({} if body is None else {"json": body}))


async def test_the_index_lists_states_and_reasons(client: httpx.AsyncClient) -> None:
    assert (await post(client, "index")).json() == INDEX
    assert (await post(client, "index", {"ready": True})).json() == INDEX[1:]
    assert (await client.get("/v2")).json()["extensions"] == list(EXTENSIONS)


async def test_a_model_is_unloaded_and_loaded(client: httpx.AsyncClient) -> None:
    unloaded = await post(client, "models/m/unload", {"parameters": {"unload_dependents": True}})
    assert (unloaded.status_code, unloaded.content) == (200, b"")
    assert (await post(client, "index")).json()[1] == {**INDEX[1], "state": "UNAVAILABLE", "reason": "unloaded"}
    assert (await client.get("/v2/models/m/ready")).status_code == 400
    loaded = await post(client, "models/m/load", {})
    assert (loaded.status_code, loaded.content) == (200, b"")
    assert (await client.get("/v2/models/m/ready")).status_code == 200
    assert (await post(client, "models/nobody/unload")).status_code == 200


async def test_what_is_null_is_not_there(client: httpx.AsyncClient) -> None:
    assert (await post(client, "index", {"ready": None})).json() == INDEX
    for body in ({"parameters": None}, {"parameters": {"config": None}}):
        assert (await post(client, "models/m/load", body)).status_code == 200
        assert (await post(client, "models/m/unload", body)).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("models/x/load", None, 500, "failed to load 'x', failed to poll from model repository"),
        ("models/broken/load", None, 400, "failed to load 'broken' version 1: the fake runtime has no model 'broken'"),
        ("models/m/load", {"parameters": {"colour": "red"}}, 501, "the load of model 'm' has parameter 'colour'"),
        ("models/m/load", {"parameters": {"config": {}}}, 400, "parameter 'config' of the load of model 'm' is {}"),
        ("models/m/unload", {"parameters": []}, 400, "the body's parameters are no JSON object, expected one or none"),
        ("models/m/load", {"parameters": 1}, 400, "the body's parameters are no JSON object, expected one or none"),
        ("models/m/load", [], 400, "the body is no JSON object, expected one or nothing"),
        ("index", {"ready": 1}, 400, "ready is 1, expected true or false"),
    ],
)
async def test_what_cannot_be_done_is_said(
    client: httpx.AsyncClient, path: str, body: Any, status: int, sentence: str
) -> None:
    response = await post(client, path, body)
    assert response.status_code == status
    assert response.json()["error"].startswith(sentence)


@pytest.mark.parametrize(
    ("model", "status", "code"), [("x", 500, Code.MODEL_NOT_FOUND), ("broken", 400, Code.MODEL_FAILED)]
)
async def test_a_load_that_fails_has_tritons_status_and_its_own_code(
    client: httpx.AsyncClient, model: str, status: int, code: Code
) -> None:
    response = await post(client, f"models/{model}/load")
    assert (response.status_code, response.json()["code"]) == (status, code.name)


async def test_a_body_that_is_no_json_is_refused(client: httpx.AsyncClient) -> None:
    response = await client.post("/v2/repository/index", content=b"{")
    assert response.status_code == 400
    assert response.json()["error"].startswith("the body is no JSON: ")


@pytest.mark.parametrize("allowed", [False])
@pytest.mark.parametrize("call", ["load", "unload"])
async def test_control_is_off_unless_it_is_allowed(client: httpx.AsyncClient, call: str) -> None:
    response = await post(client, f"models/m/{call}")
    assert (response.status_code, response.json()["code"]) == (403, Code.PERMISSION_DENIED.name)
    assert response.json()["error"].startswith("explicit model load / unload is not allowed")
    assert (await post(client, "index")).json() == INDEX


async def test_triton_s_client_controls_models(client: httpx.AsyncClient) -> None:
    def control(triton: Any) -> list[Any]:
        triton.unload_model("m")
        states = [triton.is_model_ready("m")]
        triton.load_model("m")
        return [*states, triton.is_model_ready("m"), triton.get_model_repository_index()]

    assert await with_triton(client.base_url.netloc.decode(), control) == [False, True, INDEX]
