"""Bodies that are JSON objects: how they are read, and how much may be in them."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from starlette.requests import Request
from starlette.types import Receive, Scope, Send
from tests.busy_gil_thread import occupied
from tests.plain_http import plain_client

from inferwire_server.errors import ServingError
from inferwire_server.gil_thread import GilThread
from inferwire_server.transport.http.bodies import read_object
from inferwire_server.transport.http.responses import error_response, json_response
from inferwire_server.transport.http.server import http_server

LIMIT = 1 << 20

THREAD = GilThread()


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the names of what an object has."""
    try:
        response = json_response(sorted(await read_object(Request(scope, receive), LIMIT, THREAD)))
    except ServingError as error:
        response = error_response(error)
    await response(scope, receive, send)


@pytest_asyncio.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with (
        http_server(app, "127.0.0.1", 0) as server,
        plain_client(base_url=f"http://127.0.0.1:{server.port}") as opened,
    ):
        yield opened


@pytest.mark.parametrize(
    "value",
    [
        b"[" + b"[]," * 40_000 + b"[]]",
        b"[" + b"{}," * 40_000 + b"{}]",
        b"[" + b"0," * 70_000 + b"0]",
        b"[" + b",".join([b"[" * 900 + b"]" * 900] * 100) + b"]",
    ],
    ids=["lists", "objects", "numbers", "deep"],
)
@pytest.mark.parametrize("is_packed", [False, True], ids=["as it is", "packed"])
async def test_an_object_of_more_values_than_settings_are_is_refused_before_it_is_read(
    client: httpx.AsyncClient, value: bytes, is_packed: bool
) -> None:
    body = b'{"log_info":%b}' % value
    headers = {"content-encoding": "gzip"} if is_packed else {}
    answer = await client.post("/", content=gzip.compress(body) if is_packed else body, headers=headers)
    assert answer.status_code == 400
    assert answer.json() == {"error": "the body has more than 65536 values, expected fewer", "code": "INVALID_INPUT"}


async def test_a_long_object_is_read_on_a_thread_and_a_short_one_where_it_comes(client: httpx.AsyncClient) -> None:
    await client.get("/")
    async with occupied(THREAD) as wait_for:
        short = await client.post("/", content=body_of(1000))
        asking = asyncio.ensure_future(client.post("/", content=body_of(600_000)))
        await wait_for(1)
    assert (short.json(), (await asking).json()) == (["name"], ["name"])


def body_of(byte_size: int) -> bytes:
    """Write an object with a name of so many bytes."""
    return b'{"name":"%b","none":null}' % (b"A" * byte_size)
