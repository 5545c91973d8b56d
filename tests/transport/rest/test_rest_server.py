"""Health, metadata, the docs and everything that describes the server."""

from __future__ import annotations

import re
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from structlog.testing import capture_logs
from tests.transport.rest.conftest import Rest

from inferwire_proto.errors import Code
from inferwire_server.transport.rest.routes import RawRoute


async def test_health_has_bodies(rest: Rest) -> None:
    live, ready = await rest.client.get("/v2/health/live"), await rest.client.get("/v2/health/ready")
    assert (live.status_code, live.json()) == (200, {"live": True})
    assert (ready.status_code, ready.json()) == (200, {"ready": True})
    rest.services.health.end()
    live, ready = await rest.client.get("/v2/health/live"), await rest.client.get("/v2/health/ready")
    assert (live.status_code, ready.status_code, ready.json()) == (200, 503, {"ready": False})


async def test_a_file_of_the_page_that_cannot_be_opened_for_want_of_open_files_is_to_be_asked_for_again(
    rest: Rest,
) -> None:
    assert (await rest.client.get("/v2/health/live")).status_code == 200
    soft, hard = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (1, hard))
    try:
        with capture_logs() as logs:
            answer = await rest.client.get("/swagger/swagger-ui.css")
    finally:
        setrlimit(RLIMIT_NOFILE, (soft, hard))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["error"].startswith("the server can open no more files; its log has more under id ")
    assert [entry["event"] for entry in logs] == ["no more files can be opened in a call"]
    assert (await rest.client.get("/swagger/swagger-ui.css")).status_code == 200


async def test_a_model_is_ready_or_says_why_not(rest: Rest) -> None:
    for path in ("/v2/models/echo/ready", "/v2/models/echo/versions/1/ready"):
        response = await rest.client.get(path)
        assert (response.status_code, response.json()) == (200, {"name": "echo", "ready": True})
    for name, code in (("broken", "MODEL_FAILED"), ("nope", "MODEL_NOT_FOUND")):
        response = await rest.client.get(f"/v2/models/{name}/ready")
        body = response.json()
        assert (response.status_code, body["name"], body["ready"], body["code"]) == (400, name, False, code)
        assert f"'{name}'" in body["error"]


async def test_no_model_is_ready_while_the_server_drains(rest: Rest) -> None:
    rest.services.health.end()
    response = await rest.client.get("/v2/models/echo/ready")
    expected = {"name": "echo", "ready": False, "error": "the server is shutting down", "code": "SHUTTING_DOWN"}
    assert (response.status_code, response.json()) == (400, expected)


async def test_the_server_describes_itself_with_and_without_a_slash(rest: Rest) -> None:
    identity = rest.services.health.identity
    for path in ("/v2", "/v2/"):
        body = (await rest.client.get(path)).json()
        assert (body["name"], body["version"]) == (identity.name, identity.version)
        assert {"binary_tensor_data", "parameters"} <= set(body["extensions"])


async def test_a_model_describes_its_ports(rest: Rest) -> None:
    for path in ("/v2/models/echo", "/v2/models/echo/versions/1"):
        assert (await rest.client.get(path)).json() == {
            "name": "echo",
            "versions": ["1"],
            "platform": "openvino",
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}],
            "rt_info": {},
        }


async def test_the_models_are_listed_by_name_as_kserve_lists_them(rest: Rest, tmp_path: Path) -> None:
    (tmp_path / "echo" / "inferwire.toml").write_text('version_policy = "all"')
    (tmp_path / "echo" / "2").mkdir()
    (tmp_path / "echo" / "2" / "model.onnx").touch()
    await rest.composition.loader.sync()
    assert [each.version for each in rest.services.models.statuses() if each.name == "echo"] == ["1", "2"]
    names = (await rest.client.get("/v2/models")).json()["models"]
    assert names == list(dict.fromkeys(each.name for each in rest.services.models.statuses()))
    assert {"echo", "broken"} <= set(names)


async def test_a_model_has_a_configuration(rest: Rest) -> None:
    config = (await rest.client.get("/v2/models/string/config")).json()
    assert config["input"] == [
        {
            "name": "x",
            "data_type": "TYPE_STRING",
            "dims": [-1],
            "format": "FORMAT_NONE",
            "optional": False,
            "allow_ragged_batch": False,
        }
    ]
    assert (config["max_batch_size"], config["model_transaction_policy"]) == (0, {"decoupled": False})


async def test_the_landing_page_links_to_what_is_there(rest: Rest) -> None:
    body = (await rest.client.get("/")).json()
    assert body["name"] == "inferwire"
    for path in body["links"].values():
        assert (await rest.client.get(path)).status_code == 200, path


async def test_metrics_are_prometheus_text(rest: Rest) -> None:
    response = await rest.client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "# TYPE inferwire_jobs_total counter" in response.text or "inferwire_jobs" in response.text


@pytest.mark.parametrize(("name", "is_ready"), [("echo", 1), ("broken", 0)])
async def test_metrics_say_which_models_are_ready(rest: Rest, name: str, is_ready: int) -> None:
    lines = (await rest.client.get("/metrics")).text.splitlines()
    labels = f'{{model="{name}",version="1"}}'
    assert f"inferwire_model_ready{labels} {is_ready}.0" in lines
    assert f"inferwire_model_load_failed{labels} {1 - is_ready}.0" in lines


async def test_devices_and_models_are_listed(rest: Rest) -> None:
    (device,) = (await rest.client.get("/inferwire/v1/devices")).json()["devices"]
    assert device.items() >= {"name": "CPU", "running": 0, "queued": 0, "queue_capacity": 256}.items()
    models = {model["name"]: model for model in (await rest.client.get("/inferwire/v1/models")).json()["models"]}
    assert models["echo"] == {"name": "echo", "version": "1", "state": "ready"}
    assert models["broken"]["state"] == "failed"
    assert models["broken"]["reason"] == "the fake runtime has no model 'broken'"


@pytest.mark.parametrize(
    ("method", "path", "status", "expected"),
    [
        ("GET", "/nothing", 404, "GET /nothing is not offered here, see /docs"),
        ("GET", "/v2/models/echo/", 404, "is not offered here, see /docs"),
        ("GET", "/v1/models/echo/versions/1", 404, "is not offered here, as is none of TensorFlow Serving's API: the "),
        ("POST", "/v1/models/echo:predict", 404, "the Open Inference Protocol is, below /v2"),
        ("GET", "/v2/models/echo/infer", 405, "GET /v2/models/echo/infer is not offered here, expected POST"),
        ("POST", "/v2", 405, "expected GET"),
        ("PATCH", "/v2/logging", 405, "expected GET, HEAD, POST"),
        ("OPTIONS", "/inferwire/v1/jobs/1", 405, "expected DELETE, GET, HEAD"),
        ("PUT", "/metrics", 405, "expected GET, HEAD"),
    ],
)
async def test_paths_and_methods_that_are_not_there(
    rest: Rest, method: str, path: str, status: int, expected: str
) -> None:
    response = await rest.client.request(method, path)
    assert response.status_code == status
    assert set(response.json()) == {"error", "code"}
    assert response.json()["code"] == Code.UNIMPLEMENTED.name
    assert expected in response.json()["error"]
    assert ("allow" in response.headers) == (status == 405)


async def test_head_says_what_get_says_without_the_body(rest: Rest) -> None:
    paths = ("/v2/health/live", "/v2/health/ready", "/v2/models/echo/ready", "/v2/models/stats", "/v2/models/nope")
    for path in (*paths, "/v2", "/", "/inferwire/v1/devices", "/inferwire/v1/jobs/1", "/docs", "/openapi.json"):
        asked, got = await rest.client.head(path), await rest.client.get(path)
        assert (asked.status_code, asked.content) == (got.status_code, b""), path
        for header in ("content-length", "content-type"):
            assert asked.headers[header] == got.headers[header], path
    rest.services.health.end()
    assert (await rest.client.head("/v2/health/live")).status_code == 200
    assert (await rest.client.head("/v2/health/ready")).status_code == 503


async def test_head_of_the_metrics_is_answered_and_its_connection_goes_on(rest: Rest) -> None:
    asked = await rest.client.head("/metrics")
    assert (asked.status_code, asked.content) == (200, b"")
    assert asked.headers["content-type"] == (await rest.client.get("/metrics")).headers["content-type"]
    assert len(rest.server.connections) == 1


async def test_head_is_not_answered_where_a_get_may_change_something(rest: Rest) -> None:
    refused = await rest.client.head("/inferwire/v1/jobs/1/result")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")


async def test_what_holds_for_a_moment_is_not_for_caches(rest: Rest) -> None:
    asked = ("/v2/health/ready", "/v2/models/echo", "/v2/models/nope", "/inferwire/v1/jobs/1", "/metrics", "/nothing")
    for path in asked:
        for answer in (await rest.client.get(path), await rest.client.head(path)):
            assert answer.headers.get_list("cache-control") == ["no-store"], path
    assert "cache-control" not in (await rest.client.post("/v2/models/echo/infer", content=b"")).headers


async def test_every_answer_has_a_request_id(rest: Rest) -> None:
    for path in ("/v2", "/nothing", "/v2/models/nope"):
        given = await rest.client.get(path, headers={"x-request-id": "mine-1"})
        assert given.headers["x-request-id"] == "mine-1"
        ids = {(await rest.client.get(path)).headers["x-request-id"] for _ in range(2)}
        assert len(ids) == 2
    for odd in ("x" * 129, "caf\u00e9"):
        answered = await rest.client.get("/v2", headers=[(b"x-request-id", odd.encode("latin-1"))])
        assert re.fullmatch("[0-9a-f]{16}", answered.headers["x-request-id"])


async def test_the_document_lists_every_route_with_words_and_answers(rest: Rest) -> None:
    document = (await rest.client.get("/openapi.json")).json()
    routes = [route for route in rest.app.router.routes if isinstance(route, RawRoute)]
    listed = {(path, method.upper()) for path, item in document["paths"].items() for method in item}
    served = {(route.path_format, method) for route in routes for method in route.methods or () if method != "HEAD"}
    assert served - listed == {("/v2/", "GET")}
    assert listed <= served
    tags = {tag["name"] for tag in document["tags"]}
    for path, item in document["paths"].items():
        for operation in item.values():
            assert operation["summary"], path
            assert operation["description"], path
            assert set(operation["tags"]) <= tags, path
            assert any(status.startswith("2") for status in operation["responses"]), path
            in_path = {parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "path"}
            assert in_path == set(re.findall(r"{(\w+)}", path)), path
            for status in ("4XX", "5XX"):
                example = operation["responses"][status]["content"]["application/json"]["example"]
                assert str(Code[example["code"]].http).startswith(status[0]), path


async def test_calls_have_names_that_generated_clients_can_bear(rest: Rest) -> None:
    document = (await rest.client.get("/openapi.json")).json()
    names = {
        operation["operationId"]: (method, path)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    assert len(names) == sum(map(len, document["paths"].values()))
    assert max(map(len, names)) <= len("model_statistics_version")
    assert names["infer"] == ("post", "/v2/models/{model}/infer")
    assert names["infer_version"] == ("post", "/v2/models/{model}/versions/{version}/infer")
    assert names["set_tracing"] == ("post", "/v2/trace/setting")
    assert names["set_tracing_model"] == ("post", "/v2/models/{model}/trace/setting")


async def test_the_document_has_what_a_query_may_say(rest: Rest) -> None:
    document = (await rest.client.get("/openapi.json")).json()
    start = document["paths"]["/inferwire/v1/models/{model}/jobs"]["post"]
    assert "Inference-Header-Content-Length" in [each["name"] for each in start["parameters"]]
    said = {
        path: names
        for path, item in document["paths"].items()
        for operation in item.values()
        if (names := [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"])
    }
    assert said == {
        "/inferwire/v1/models/{model}/jobs": ["profile"],
        "/inferwire/v1/models/{model}/versions/{version}/jobs": ["profile"],
        "/inferwire/v1/jobs/{job}": ["wait_s"],
        "/inferwire/v1/jobs/{job}/result": ["release"],
    }


@pytest.mark.parametrize("path", ["/", "/v2", "/inferwire/v1/devices", "/inferwire/v1/models"])
async def test_the_document_has_the_fields_of_what_describes_the_server(rest: Rest, path: str) -> None:
    answered = (await rest.client.get(path)).json()
    operation = (await rest.client.get("/openapi.json")).json()["paths"][path]["get"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert not _undescribed(answered, schema)


async def test_every_reference_of_the_document_leads_somewhere(rest: Rest) -> None:
    document = (await rest.client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    assert schemas["Error"]["properties"]["code"]["enum"] == [code.name for code in Code]
    references = set(_references(document))
    assert references
    assert references <= {f"#/components/schemas/{name}" for name in schemas}


async def test_the_docs_have_a_style_for_phones(rest: Rest) -> None:
    head, _ = (await rest.client.get("/docs")).text.split("</head>")
    assert "@media (max-width: 640px)" in head


async def test_the_docs_are_a_page(rest: Rest) -> None:
    response = await rest.client.get("/docs")
    assert response.headers["content-type"].startswith("text/html")
    needed = [*re.findall(r'(?:src|href)="([^"]+)"', response.text), *re.findall(r"url: '([^']+)'", response.text)]
    assert len(needed) == 4
    for url in needed:
        # The page works where nothing but the server can be reached, through whatever proxy that is.
        assert not urlsplit(url).netloc
        assert not url.startswith("/")
        assert (await rest.client.get(urljoin("/docs", url))).status_code == 200


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if "$ref" in node else []
        return own + [found for value in node.values() for found in _references(value)]
    if isinstance(node, list):
        return [found for value in node for found in _references(value)]
    return []


def _undescribed(answered: Any, schema: dict[str, Any]) -> list[str]:
    """Name the fields that an answer has and its schema lacks, or that the schema requires and the answer lacks."""
    if isinstance(answered, list):
        return [name for each in answered for name in _undescribed(each, schema["items"])]
    if not isinstance(answered, dict):
        return []
    described: dict[str, Any] = schema.get("properties", {})
    own = [*(set(answered) - set(described)), *(set(schema.get("required", ())) - set(answered))]
    return own + [
        name for field in set(answered) & set(described) for name in _undescribed(answered[field], described[field])
    ]
