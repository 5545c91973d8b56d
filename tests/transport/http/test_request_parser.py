"""Requests as a peer's bytes say them: offers of other protocols, fields behind a body, and what is too long."""

from __future__ import annotations

import gc
from weakref import ref

import pytest
from httptools import HttpParserError, HttpRequestParser

from inferwire_server.transport.http.request_parser import (
    LONGEST_HEAD,
    Fields,
    NoSingleHost,
    RequestParser,
    TooLong,
    UnknownCoding,
)

HOST = (b"host", b"x")
OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
FULL = b"x" * LONGEST_HEAD


class Listener:
    """Writes down what it is told."""

    parser: HttpRequestParser

    def __init__(self) -> None:
        self.url = b""
        self.headers: Fields = []
        self.requests: list[tuple[bytes, bytes, Fields]] = []
        self.bodies: list[bytes] = []
        self.ended = 0

    def on_message_begin(self) -> None:
        self.url, self.headers = b"", []

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.requests.append((self.parser.get_method(), self.url, self.headers))
        self.bodies.append(b"")

    def on_body(self, body: bytes) -> None:
        self.bodies[-1] += body

    def on_message_complete(self) -> None:
        self.ended += 1


def told(*parts: bytes) -> Listener:
    """Feed a parser, and give whom it has told."""
    listener = Listener()
    parser = RequestParser(listener)
    for part in parts:
        parser.feed(part)
    return listener


def post(headers: bytes, body: bytes) -> bytes:
    return b"POST /a HTTP/1.1\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n%b" % (headers, len(body), body)


def chunked(*chunks: bytes, trailers: bytes = b"") -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%b0\r\n%b\r\n" % (body, trailers)


def test_an_offer_is_ignored_and_the_body_is_the_requests() -> None:
    request = post(OFFER, b"GET /b HTTP/1.1\r\nHost: x\r\n\r\n")
    listener = told(request)
    headers = [
        HOST,
        (b"connection", b"Upgrade, HTTP2-Settings"),
        (b"http2-settings", b"AAMAAABk"),
        (b"content-length", b"28"),
    ]
    assert listener.requests == [(b"POST", b"/a", headers)]
    assert listener.bodies == [b"GET /b HTTP/1.1\r\nHost: x\r\n\r\n"]
    assert listener.ended == 1


@pytest.mark.parametrize("size", [1, 7, 64])
def test_offers_may_come_in_pieces_and_in_a_row(size: int) -> None:
    requests = (
        post(OFFER, b"first")
        + b"GET /b HTTP/1.1\r\nHost: x\r\n"
        + OFFER
        + b"\r\n"
        + post(OFFER, b"third")
        + post(b"", b"4")
    )
    listener = told(*(requests[at : at + size] for at in range(0, len(requests), size)))
    assert [(method, url) for method, url, _ in listener.requests] == [
        (b"POST", b"/a"),
        (b"GET", b"/b"),
        (b"POST", b"/a"),
        (b"POST", b"/a"),
    ]
    assert listener.bodies == [b"first", b"", b"third", b"4"]
    assert listener.ended == 4


def test_any_number_of_offers_may_come_at_once() -> None:
    assert told(post(OFFER, b"1") * 3000).bodies == [b"1"] * 3000


def test_to_be_put_through_to_another_server_is_no_offer() -> None:
    with pytest.raises(HttpParserError):
        told(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n")


def test_fields_behind_a_body_are_no_headers() -> None:
    listener = told(chunked(b"one", b"two", trailers=b"Authorization: Bearer key\r\nX: y\r\n") + post(b"A: b\r\n", b""))
    assert [headers for _, _, headers in listener.requests] == [
        [HOST, (b"transfer-encoding", b"chunked")],
        [HOST, (b"a", b"b"), (b"content-length", b"0")],
    ]
    assert listener.bodies == [b"onetwo", b""]
    assert listener.ended == 2


@pytest.mark.parametrize(
    "head", [b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: %b\r\n\r\n"]
)
def test_a_head_that_is_too_long_is_none_though_it_comes_in_one_piece(head: bytes) -> None:
    assert told(head % FULL[100:]).ended == 1
    with pytest.raises(TooLong):
        told(head % FULL)
    with pytest.raises(TooLong):
        told(post(b"", b"another before it") + head % FULL)


def test_a_head_of_many_short_fields_may_be_too_long() -> None:
    with pytest.raises(TooLong):
        told(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: \r\n" * (LONGEST_HEAD // 4) + b"\r\n")


@pytest.mark.parametrize(
    "begun",
    [
        b"GET /",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: ",
        chunked(b"1")[:-2] + b"A: ",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;a=",
    ],
)
def test_what_has_no_end_is_given_up(begun: bytes) -> None:
    listener = Listener()
    parser = RequestParser(listener)
    parser.feed(begun + b"x")
    parser.feed(FULL[100:])
    with pytest.raises(TooLong):
        parser.feed(FULL[:101])


def test_fields_behind_a_body_have_no_more_room() -> None:
    parser = RequestParser(Listener())
    parser.feed(chunked(b"1")[:-2])
    parser.feed(b"a: b\r\n" * (LONGEST_HEAD // 8))
    with pytest.raises(TooLong):
        parser.feed(b"a: b\r\n" * (LONGEST_HEAD // 8))


@pytest.mark.parametrize("request_", [post(b"", FULL * 3), chunked(FULL * 3), chunked(*([b"1"] * 30_000))])
@pytest.mark.parametrize("size", [1000, 100_000, 1_000_000])
def test_a_long_body_is_not_taken_for_a_head(request_: bytes, size: int) -> None:
    requests = request_ * 2
    listener = told(*(requests[at : at + size] for at in range(0, len(requests), size)))
    assert listener.ended == 2
    assert listener.bodies[0] == listener.bodies[1]
    assert len(listener.bodies[0]) >= 30_000


@pytest.mark.parametrize(
    "said", [b"\x16\x03\x01 hello\r\n\r\n", post(OFFER, b"1") + b"\x16\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
)
def test_what_is_no_http_is_refused(said: bytes) -> None:
    with pytest.raises(HttpParserError):
        told(said)


@pytest.mark.parametrize(
    "fields",
    [
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        b"transfer-encoding: identity, chunked\r\n",
        OFFER + b"Transfer-Encoding: gzip, chunked\r\n",
    ],
)
def test_a_body_that_is_encoded_for_the_transfer_is_refused_before_it_is_told(fields: bytes) -> None:
    listener = Listener()
    parser = RequestParser(listener)
    with pytest.raises(UnknownCoding):
        parser.feed(b"POST /a HTTP/1.1\r\nHost: x\r\n%b\r\n1\r\na\r\n0\r\n\r\n" % fields)
    assert listener.requests == []


@pytest.mark.parametrize("value", [b"chunked", b"Chunked", b" chunked "])
def test_chunks_may_be_written_in_any_way(value: bytes) -> None:
    said = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:%b\r\n\r\n1\r\na\r\n0\r\n\r\n" % value
    assert told(said).bodies == [b"a"]


@pytest.mark.parametrize(
    "head",
    [
        b"GET /b HTTP/1.1\r\n\r\n",
        b"GET /b HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",
        b"GET /b HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /b HTTP/1.1\r\n" + OFFER + b"\r\n",
    ],
)
def test_what_is_asked_of_no_host_or_of_several_is_refused_before_it_is_told(head: bytes) -> None:
    listener = Listener()
    parser = RequestParser(listener)
    with pytest.raises(NoSingleHost):
        parser.feed(post(b"", b"1") + head)
    assert [url for _, url, _ in listener.requests] == [b"/a"]


@pytest.mark.parametrize("head", [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost:\r\n\r\n"])
def test_old_requests_need_no_host_and_a_host_may_have_no_name(head: bytes) -> None:
    assert told(head).ended == 1


def test_one_that_is_closed_tells_nothing_and_is_gone_without_garbage_collection() -> None:
    listener = Listener()
    parser = RequestParser(listener)
    parser.feed(b"GET / HT")
    assert repr(parser) == "<RequestParser: in a head>"
    parser.feed(b"TP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n")
    assert repr(parser) == "<RequestParser: in a body>"
    parser.close()
    parser.close()
    assert repr(parser) == "<RequestParser: closed>"
    parser.feed(b"1" + FULL)
    assert listener.ended == 0
    del listener.parser
    gc.disable()
    try:
        gone = ref(listener)
        del listener  # who often keeps the parser, as this test does
        assert gone() is None
    finally:
        gc.enable()
