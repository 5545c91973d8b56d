"""HTTP calls as bytes, and applications that answer what is on no connection of theirs."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs

from inferwire_server.composition import Composition
from inferwire_server.transport.http.exchange import exchange_of
from inferwire_server.transport.relay.http_messages import HttpAnswer, HttpRequest, answer_of
from inferwire_server.transport.rest.app import Api, create_app

X = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 2.0, 3.0, 4.0]}
INFER = json.dumps({"inputs": [X]}).encode()

headers = st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=4)


@given(st.text(max_size=9), st.binary(max_size=9), st.binary(max_size=9), headers, st.binary(max_size=99))
def test_a_request_is_the_same_on_the_other_side(
    path: str, raw_path: bytes, query: bytes, given: list[tuple[bytes, bytes]], body: bytes
) -> None:
    request = HttpRequest("POST", path, raw_path, query, given, body)
    assert HttpRequest.decode(request.encode()) == request


@given(st.integers(100, 599), headers, st.binary(max_size=99))
def test_an_answer_is_the_same_on_the_other_side(status: int, given: list[tuple[bytes, bytes]], body: bytes) -> None:
    answer = HttpAnswer(status, given, body)
    assert HttpAnswer.decode(answer.encode()) == answer


def test_another_body_has_another_length_and_keeps_what_else_is_said() -> None:
    kept = [(b"content-type", b"text/plain"), (b"x", b"\xe9")]
    answer = HttpAnswer(200, [kept[0], (b"content-length", b"3"), kept[1]], b"abc")
    assert answer.with_body(b"four") == HttpAnswer(200, [*kept, (b"content-length", b"4")], b"four")


def asked(method: str, path: str, body: bytes = b"", query: bytes = b"", **given: str) -> HttpRequest:
    named = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in given.items()]
    return HttpRequest(method, path, path.encode(), query, named, body)


async def test_an_application_sees_the_request_as_it_came() -> None:
    seen: dict[str, Any] = {}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        seen.update(
            method=request.method,
            path=scope["path"],
            raw_path=scope["raw_path"],
            query=request.query_params["q"],
            header=request.headers["x-name"],
            body=await request.body(),
            end=await receive(),
        )
        await Response(b"\x00\xff", 202, {"x-answer": "é"})(scope, receive, send)

    request = HttpRequest("PUT", "/a b/é", b"/a%20b/%C3%A9", b"q=1%2B1", [(b"x-name", b"caf\xe9")], b"\xff\x00" * 9)
    answer = await answer_of(app, request)
    assert seen == {
        "method": "PUT",
        "path": "/a b/é",
        "raw_path": b"/a%20b/%C3%A9",
        "query": "1+1",
        "header": "caf\xe9",
        "body": b"\xff\x00" * 9,
        "end": {"type": "http.disconnect"},
    }
    assert (answer.status, answer.body) == (202, b"\x00\xff")
    assert (b"x-answer", b"\xe9") in answer.headers


async def test_an_answer_in_parts_is_whole() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        for part in (b"a", b"", b"bc"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})

    assert await answer_of(app, asked("GET", "/")) == HttpAnswer(200, [], b"abc")


async def test_it_can_be_answered_by_events_alone() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = exchange_of(scope)
        assert not exchange.takes(send)
        with pytest.raises(AssertionError, match="a connection that is not there; this is a bug"):
            await exchange.answer([], b"")
        await Response()(scope, receive, send)

    assert (await answer_of(app, asked("GET", "/"))).status == 200


@pytest.fixture
def app(composition: Composition) -> Api:
    """The whole server's application."""
    return create_app(composition.services, composition.metrics.text, 1000)


def error_of(answer: HttpAnswer) -> tuple[int, str]:
    content = json.loads(answer.body)
    assert set(content) == {"error", "code"}
    return answer.status, content["code"]


async def test_the_real_application_infers(app: Api) -> None:
    answer = await answer_of(app, asked("POST", "/v2/models/echo/infer", INFER))
    assert answer.status == 200
    assert json.loads(answer.body)["outputs"][0]["data"] == X["data"]
    assert dict(answer.headers)[b"content-length"] == b"%d" % len(answer.body)
    assert b"x-request-id" not in dict(answer.headers), "the connection's business"


async def test_compressed_both_ways(app: Api) -> None:
    packed = asked(
        "POST", "/v2/models/echo/infer", gzip.compress(INFER), content_encoding="gzip", accept_encoding="gzip"
    )
    answer = await answer_of(app, packed)
    assert dict(answer.headers)[b"content-encoding"] == b"gzip"
    assert json.loads(gzip.decompress(answer.body))["outputs"][0]["data"] == X["data"]


async def test_a_job_is_started_waited_for_and_collected(app: Api) -> None:
    started = await answer_of(app, asked("POST", "/inferwire/v1/models/echo/jobs", INFER))
    where = dict(started.headers)[b"location"].decode()
    ended = await answer_of(app, asked("GET", where, query=b"wait_s=10"))
    assert json.loads(ended.body)["state"] == "finished"
    result = await answer_of(app, asked("GET", f"{where}/result", query=b"release=true"))
    assert json.loads(result.body)["outputs"][0]["data"] == X["data"]
    assert error_of(await answer_of(app, asked("GET", where))) == (404, "JOB_NOT_FOUND")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (asked("GET", "/nowhere"), (404, "UNIMPLEMENTED")),
        (asked("PUT", "/metrics"), (405, "UNIMPLEMENTED")),
        (asked("GET", "/v2/models/none"), (404, "MODEL_NOT_FOUND")),
        (asked("POST", "/v2/models/echo/infer", b"{"), (400, "INVALID_INPUT")),
        (asked("POST", "/v2/models/echo/infer", b"\xff" * 1001), (413, "TOO_LARGE")),
        (asked("POST", "/v2/repository/models/echo/load"), (403, "PERMISSION_DENIED")),
    ],
    ids=lambda value: value.path if isinstance(value, HttpRequest) else "",
)
async def test_its_refusals_are_those_of_a_connection(
    app: Api, request_: HttpRequest, expected: tuple[int, str]
) -> None:
    with capture_logs() as logged:
        assert error_of(await answer_of(app, request_)) == expected
    assert not logged
