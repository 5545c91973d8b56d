"""The HTTP socket: binding, draining, limits, and callers that go away."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import socket

import httpx
import orjson
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs
from tests.ipv6 import NEEDS_IPV6
from tests.plain_http import plain_client
from tests.transport.http2.socket_peer import MUCH
from tests.transport.rest.conftest import Rest, X, sentence
from tests.waiting import LIMIT_S, until

from inferwire_proto.errors import Code
from inferwire_server.transport.http.cycle import GATHERED_BODY
from inferwire_server.transport.http.request_parser import LONGEST_HEAD
from inferwire_server.transport.http.request_timeouts import RequestTimeouts
from inferwire_server.transport.http.server import http_server
from inferwire_server.transport.listening import CannotListen


async def held(rest: Rest, count: int = 1) -> None:
    await asyncio.to_thread(rest.models["gated"].gate.wait_held, count)


async def accepts(client: httpx.AsyncClient, rest: Rest) -> bool:
    try:
        await client.get(f"http://{rest.address}/v2", headers={"connection": "close"})
    except httpx.ConnectError:
        return False
    return True


async def test_a_port_in_use_is_one_sentence(rest: Rest) -> None:
    with pytest.raises(CannotListen) as caught:
        async with http_server(rest.app, "127.0.0.1", rest.server.port):
            raise AssertionError("two servers on one port")
    assert str(caught.value) == (
        f"cannot listen for HTTP on 127.0.0.1:{rest.server.port}: another process uses the port; "
        "stop it, or choose another port with --http-port"
    )


async def test_a_host_that_is_not_ours_is_one_sentence(rest: Rest) -> None:
    with pytest.raises(CannotListen, match=r"cannot listen for HTTP on 192\.0\.2\.1:0: .*--host"):
        async with http_server(rest.app, "192.0.2.1", 0):
            raise AssertionError("somebody else's address")


@NEEDS_IPV6
@pytest.mark.parametrize("shares_port", [False, True])
async def test_every_address_of_ipv6_is_every_address_of_ipv4_as_well(rest: Rest, shares_port: bool) -> None:
    async with http_server(rest.app, "::", 0, shares_port=shares_port) as server, plain_client() as client:
        assert repr(server).startswith(f"<HttpServer [::]:{server.port}: ")
        for host in ("127.0.0.1", "[::1]"):
            assert (await client.get(f"http://{host}:{server.port}/v2")).status_code == 200
        with pytest.raises(CannotListen, match=rf"on \[::\]:{server.port}: another process"):
            async with http_server(rest.app, "::", server.port):
                raise AssertionError("two servers on one port")


async def test_the_signals_stay_with_the_process(rest: Rest) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with http_server(rest.app, "127.0.0.1", 0):
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


async def test_answers_say_when_and_not_by_what(rest: Rest) -> None:
    headers = (await rest.client.get("/v2")).headers
    assert "date" in headers
    assert "server" not in headers


async def test_answers_are_sent_at_once(rest: Rest) -> None:
    await rest.client.get("/v2")
    (connection,) = rest.server.connections
    peer: socket.socket = connection.transport.get_extra_info("socket")
    assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.parametrize(("size", "most_messages"), [(600_000, 1), (3 * GATHERED_BODY, 4)])
async def test_a_body_comes_in_few_parts(size: int, most_messages: int) -> None:
    received: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        more = True
        while more:
            message = await receive()
            received.append(message["body"])
            more = message["more_body"]
        await PlainTextResponse("taken")(scope, receive, send)

    body = random.Random(0).randbytes(size)
    async with http_server(app, "127.0.0.1", 0) as server, plain_client() as client:
        answer = await client.post(f"http://127.0.0.1:{server.port}/", content=body)
    assert answer.text == "taken"
    assert b"".join(received) == body
    assert len(received) <= most_messages


async def test_callers_that_are_sent_elsewhere_have_a_last_answer_on_each_connection(rest: Rest) -> None:
    assert "connection" not in (await rest.client.get("/v2")).headers
    running = asyncio.ensure_future(rest.infer("gated", X))
    await held(rest)
    rest.server.part()
    answers = [await rest.infer("echo", X), await rest.infer("none", X), await rest.client.get("/metrics")]
    assert [(answer.status_code, answer.headers["connection"]) for answer in answers] == [
        (200, "close"),
        (404, "close"),
        (200, "close"),
    ]
    rest.models["gated"].gate.open()
    assert (await running).headers["connection"] == "close"


async def test_a_connection_on_which_nothing_is_due_is_open_for_what_is_on_its_way(rest: Rest) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", rest.server.port)
    writer.write(b"GET /v2 HTTP/1.1\r\nhost: x\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"connection: close" not in head
    await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
    rest.server.part()
    writer.write(b"GET /v2 HTTP/1.1\r\nhost: x\r\n\r\n")
    assert b"\r\nconnection: close\r\n" in await reader.read()
    writer.close()


async def test_requests_that_came_in_a_row_are_all_answered_before_callers_go_elsewhere() -> None:
    may_answer = asyncio.Event()
    has_begun = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        has_begun.set()
        await may_answer.wait()
        await PlainTextResponse("hello")(scope, receive, send)

    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 2)
        await has_begun.wait()
        server.part()
        may_answer.set()
        answer = await reader.read()
        writer.close()
    assert (answer.count(b"hello"), answer.count(b"connection: close")) == (2, 1)


async def test_an_answer_under_way_is_not_the_last_that_its_caller_has() -> None:
    has_begun = asyncio.Event()
    may_end = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        has_begun.set()
        await may_end.wait()
        await send({"type": "http.response.body", "body": b"hello"})

    async with http_server(app, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await has_begun.wait()
        server.part()
        may_end.set()
        assert b"connection: close" not in await reader.readuntil(b"hello")
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"\r\nconnection: close\r\n" in await reader.read()
        writer.close()


async def test_a_drain_lets_calls_in_flight_finish_and_turns_new_ones_away(rest: Rest) -> None:
    await rest.client.get("/v2")
    running = asyncio.ensure_future(rest.infer("gated", X))
    await held(rest)
    draining = asyncio.ensure_future(rest.server.drain(30))
    async with plain_client() as other, asyncio.timeout(LIMIT_S):
        while await accepts(other, rest):
            pass
    assert not draining.done()
    rest.models["gated"].gate.open()
    response = await running
    assert (response.status_code, response.headers["connection"]) == (200, "close")
    await draining
    assert repr(rest.server) == f"<HttpServer {rest.address}: closed>"


async def test_who_has_connected_before_the_port_closes_is_answered(rest: Rest) -> None:
    with socket.create_connection(("127.0.0.1", rest.server.port), 10) as newcomer:
        newcomer.sendall(b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n")
        draining = asyncio.ensure_future(rest.server.drain(30))
        answer = await asyncio.to_thread(newcomer.makefile("rb").read)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"\r\nconnection: close\r\n" in answer
    await draining


async def test_who_has_asked_on_an_open_connection_before_it_closes_is_answered(rest: Rest) -> None:
    asked = b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n"
    with socket.create_connection(("127.0.0.1", rest.server.port), 10) as caller, caller.makefile("rb") as answers:
        caller.sendall(asked)
        assert await asyncio.to_thread(answers.readline) == b"HTTP/1.1 200 OK\r\n"
        while (await asyncio.to_thread(answers.readline)) != b"\r\n":
            pass
        assert await asyncio.to_thread(answers.read, len(b'{"live":true}')) == b'{"live":true}'
        # In one turn of the loop, so that the server cannot have read it when it closes the port.
        asyncio.get_running_loop().call_soon(caller.sendall, asked)
        draining = asyncio.ensure_future(rest.server.drain(30))
        last = await asyncio.to_thread(answers.read)
    assert last.startswith(b"HTTP/1.1 200")
    assert b"\r\nconnection: close\r\n" in last
    await draining


async def test_a_drain_cancels_what_is_left_after_the_grace(rest: Rest, caplog: pytest.LogCaptureFixture) -> None:
    running = asyncio.ensure_future(rest.infer("gated", X))
    await held(rest)
    with capture_logs() as logged:
        await rest.server.drain(0)
    assert [(entry["log_level"], entry["requests"]) for entry in logged] == [("warning", 1)]
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
    await held(rest, 0)
    await rest.reaches(running=0, queued=0)
    assert sentence(await running, Code.SHUTTING_DOWN) == "the server is shutting down"


async def test_a_drain_says_nothing_of_a_peer_that_does_not_read_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever works for it has ended. It is cut off when the server is closed."""
    timeouts = RequestTimeouts(answer_s=3600.0)
    app = PlainTextResponse("x" * MUCH)
    async with asyncio.timeout(20), http_server(app, "127.0.0.1", 0, timeouts=timeouts) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await reader.read(1)
        with capture_logs() as logged:
            await server.drain(0)
        assert len(server.connections) == 1
    assert server.connections == ()
    writer.close()
    assert logged == []
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


async def test_a_caller_that_goes_takes_its_inference_along(rest: Rest) -> None:
    running = asyncio.ensure_future(rest.infer("gated", X))
    await held(rest)
    queued = asyncio.ensure_future(rest.infer("gated", X))
    await rest.reaches(running=1, queued=1)
    for call in (queued, running):
        call.cancel()
    await held(rest, 0)
    await rest.reaches(running=0, queued=0)
    rest.models["gated"].gate.open()
    assert (await rest.infer("gated", X)).status_code == 200


async def test_a_caller_that_stops_waiting_leaves_the_job_alone(rest: Rest) -> None:
    started = await rest.client.post("/inferwire/v1/models/gated/jobs", json={"inputs": [X]})
    path = started.headers["location"]
    waiting = asyncio.ensure_future(rest.client.get(f"{path}?wait_s=60"))
    await held(rest)
    waiting.cancel()
    rest.models["gated"].gate.open()
    assert (await rest.client.get(f"{path}?wait_s=60")).json()["state"] == "finished"


async def test_a_caller_that_goes_in_the_middle_of_its_body_leaves_nothing(rest: Rest) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", rest.server.port)
    writer.write(b"POST /v2/models/echo/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    await until(lambda: not rest.server.connections)
    assert (await rest.infer("echo", X)).status_code == 200


async def raw(rest: Rest, *parts: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", rest.server.port)
    for part in parts:
        writer.write(part)
        await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_head_without_end_is_refused(rest: Rest) -> None:
    chunk = b"x" * (LONGEST_HEAD // 4)
    answer = await raw(rest, b"GET /v2 HTTP/1.1\r\nhost: x\r\nlong: ", chunk, chunk, chunk, chunk, b"x")
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b'"code":"TOO_LARGE"' in answer


async def test_a_long_body_is_not_taken_for_the_next_head(rest: Rest) -> None:
    for _ in range(3):
        assert (await rest.post("echo", b"x" * (LONGEST_HEAD * 3))).status_code == 400
        assert (await rest.client.get("/v2")).status_code == 200
    assert len(rest.server.connections) == 1


async def test_a_body_that_is_encoded_for_the_transfer_is_not_taken_for_another(rest: Rest) -> None:
    answer = await raw(rest, b"POST /v2 HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 501 ")
    assert b'"code":"UNIMPLEMENTED"' in answer


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (b"\x16\x03\x01 hello\r\n\r\n", b": Invalid method encountered"),
        (b"GET /v2/models/gr\xc3\xb6\xc3\x9fe HTTP/1.1\r\nhost: x\r\n\r\n", b": Invalid char in url path"),
        (b"POST /v2 HTTP/1.1\r\nhost: x\r\ncontent-length: 1, 1\r\n\r\n", b": Invalid character in Content-Length"),
        (b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n", b""),
    ],
)
async def test_what_is_no_http_is_refused_in_json_with_the_reason(rest: Rest, request_: bytes, reason: bytes) -> None:
    answer = await raw(rest, request_)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\ndate: ")
    assert b'"error":"what arrived is no HTTP/1.1 request%b"' % reason in answer


@pytest.mark.parametrize("hosts", [b"", b"host: x\r\nhost: x\r\n"])
async def test_a_request_of_no_host_or_of_several_is_refused_in_json(rest: Rest, hosts: bytes) -> None:
    answer = await raw(rest, b"GET /v2 HTTP/1.1\r\n%b\r\n" % hosts)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"error":"the request has no Host header or several, expected one"' in answer


@pytest.mark.parametrize("target", [b"http://x", b"http://x/", b"http://x?a=b", b"/"])
async def test_a_target_may_name_the_host(rest: Rest, target: bytes) -> None:
    answer = await raw(rest, b"GET %b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" % target)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b'"name":"inferwire"' in answer


@pytest.mark.parametrize("pieces", [1, 3])
async def test_a_grpc_call_is_told_that_this_is_the_http_port(rest: Rest, pieces: int) -> None:
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    size = len(preface) // pieces
    answer = await raw(rest, *(preface[at : at + size] for at in range(0, len(preface), size)))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"gRPC calls go to the gRPC port" in answer


INFERENCE = orjson.dumps({"inputs": [X]})
OFFER = b"connection: upgrade\r\nupgrade: h2c\r\n"


def asking(path: str, body: bytes = b"", headers: bytes = b"") -> bytes:
    return b"POST %b HTTP/1.1\r\nhost: x\r\n%bcontent-length: %d\r\n\r\n%b" % (
        path.encode(),
        headers,
        len(body),
        body,
    )


LAST = b"GET /v2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


async def test_an_offer_to_speak_another_protocol_is_ignored(rest: Rest) -> None:
    inference = asking("/v2/models/echo/infer", INFERENCE, OFFER)
    answer = await raw(rest, inference[:-10], inference[-10:] + LAST)
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert b'"data":[1.0,2.0,3.0,4.0]' in answer


async def test_a_body_behind_such_an_offer_is_no_request(rest: Rest) -> None:
    answer = await raw(rest, asking("/v2/models/echo/infer", LAST, OFFER) + LAST)
    assert answer.count(b"HTTP/1.1") == 2
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"HTTP/1.1 200 OK" in answer


async def test_blanks_around_a_header_are_no_part_of_it(rest: Rest) -> None:
    body = orjson.dumps({"inputs": [X]})
    lengths = b"content-length: %d\r\ninference-header-content-length: \t%d \t\r\n" % (len(body), len(body))
    path = b"POST /v2/models/echo/infer HTTP/1.1\r\nhost: x\r\n"
    answer = await raw(rest, path + lengths + b"accept-encoding:gzip \r\nconnection: close\r\n\r\n" + body)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"\r\ncontent-encoding: gzip\r\n" in answer


async def test_a_length_behind_a_body_is_no_header(rest: Rest) -> None:
    content = INFERENCE
    head = b"POST /v2/models/echo/infer HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b"%x\r\n%b\r\n0\r\ninference-header-content-length: 3\r\nx-request-id: mine\r\n\r\n"
    answer = await raw(rest, head + body % (len(content), content) + LAST)
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert b"mine" not in answer


async def test_a_head_that_is_too_long_is_refused_though_it_comes_in_one_piece(rest: Rest) -> None:
    answer = await raw(rest, b"GET /v2 HTTP/1.1\r\nhost: x\r\nlong: %b\r\n\r\n" % (b"x" * 100_000))
    assert answer.startswith(b"HTTP/1.1 431 ")
