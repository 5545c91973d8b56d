"""What browsers are told that ask whether pages of other origins may call, and what such pages may read."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx
import pytest
from tests.plain_http import plain_client
from tests.transport.rest.conftest import Rest, X

from inferwire_server.transport.http.server import http_server
from inferwire_server.transport.rest.cross_origin import allowing_origins

PAGE = "https://app.example"
PATH = "/v2/models/echo/infer"
QUESTION = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,inference-header-content-length",
    "access-control-request-private-network": "true",
}


@pytest.fixture(params=[PAGE, "*"])
async def browser(rest: Rest, request: pytest.FixtureRequest) -> AsyncGenerator[httpx.AsyncClient]:
    app = allowing_origins(rest.app, (request.param,))
    async with (
        http_server(app, "127.0.0.1", 0) as server,
        plain_client(base_url=f"http://127.0.0.1:{server.port}", headers={"origin": PAGE}) as client,
    ):
        yield client


async def test_a_page_from_the_internet_may_reach_into_the_servers_network(browser: httpx.AsyncClient) -> None:
    told = await browser.options(PATH, headers=QUESTION)
    assert told.status_code == 200
    assert told.headers["access-control-allow-origin"] in (PAGE, "*")
    assert told.headers["access-control-allow-headers"] == QUESTION["access-control-request-headers"]
    assert told.headers["access-control-allow-private-network"] == "true"


async def test_who_asks_for_no_other_network_is_told_of_none(browser: httpx.AsyncClient) -> None:
    told = await browser.options(PATH, headers={"access-control-request-method": "POST"})
    assert told.status_code == 200
    assert "access-control-allow-private-network" not in told.headers


async def test_a_page_that_may_not_call_may_not_reach_into_the_network(rest: Rest) -> None:
    app = allowing_origins(rest.app, (PAGE,))
    async with http_server(app, "127.0.0.1", 0) as server, plain_client() as client:
        address = f"http://127.0.0.1:{server.port}{PATH}"
        told = await client.options(address, headers=QUESTION | {"origin": "https://other.example"})
    assert told.status_code == 400
    assert "access-control-allow-origin" not in told.headers
    assert "access-control-allow-private-network" not in told.headers


async def test_a_page_may_read_what_the_calls_document_says_of_an_answers_headers(browser: httpx.AsyncClient) -> None:
    answer = await browser.post(PATH, json={"inputs": [X]})
    readable = answer.headers["access-control-expose-headers"].lower().split(", ")
    document = (await browser.get("/openapi.json")).json()
    documented = document["paths"]["/v2/models/{model}/infer"]["post"]["responses"]["200"]["headers"]
    assert {name.lower() for name in documented} <= set(readable)
    assert {"location", "retry-after", "x-request-id"} <= set(readable)
