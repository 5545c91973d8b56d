"""What a peer is answered before there is a request that could be: each of these ends the connection."""

from __future__ import annotations

from httptools import HttpParserCallbackError, HttpParserError, HttpRequestParser

from inferwire_proto.errors import Code
from inferwire_server.errors import shutting_down
from inferwire_server.transport.error_translation import as_serving_error
from inferwire_server.transport.http.request_parser import LONGEST_HEAD, NoSingleHost, TooLong, Unfit, UnknownCoding
from inferwire_server.transport.http.responses import ELSEWHERE_AFTER_S, error_body

_HTTP2 = b"PRI"
"""The method that HTTP/2 begins with, so that servers of HTTP/1.1 know it."""


def refusal_of(error: Unfit | HttpParserError | MemoryError, parser: HttpRequestParser) -> bytes:
    """Give the answer to what a parser has refused with this error, or had no room for."""
    match error:
        case TooLong():
            return _HEAD_TOO_LONG
        case UnknownCoding():
            return _UNKNOWN_CODING
        case NoSingleHost():
            return _NO_SINGLE_HOST
        case MemoryError():
            return _no_room(error)
        case _:
            return _NO_GRPC if parser.get_method() == _HTTP2 else _no_http(error)


def _no_http(error: Exception) -> bytes:
    """Write an answer to what the parser does not take, with its reason; what our own checks refuse there has none."""
    reason = "" if isinstance(error, HttpParserCallbackError) else f": {error}"
    return _refusal(b"400 Bad Request", Code.INVALID_INPUT, f"what arrived is no HTTP/1.1 request{reason}")


def _no_room(error: MemoryError) -> bytes:
    failure = as_serving_error(error)
    return _refusal(b"413 Request Entity Too Large", failure.code, failure.message)


def _refusal(status: bytes, code: Code, sentence: str, further: bytes = b"") -> bytes:
    """Write an answer that closes the connection, with a further header, if given."""
    body = error_body(code, sentence)
    head = b"content-type: application/json\r\n%bconnection: close\r\ncontent-length: %d" % (further, len(body))
    return b"HTTP/1.1 %b\r\n%b\r\n\r\n%b" % (status, head, body)


_HEAD_TOO_LONG = _refusal(
    b"431 Request Header Fields Too Large",
    Code.TOO_LARGE,
    f"the request line and headers, or what stands between parts of the body, are longer than {LONGEST_HEAD} bytes",
)
_UNKNOWN_CODING = _refusal(
    b"501 Not Implemented",
    Code.UNIMPLEMENTED,
    "the request's transfer-encoding is one that is not known here, expected chunked, or content-encoding instead",
)
_NO_SINGLE_HOST = _refusal(
    b"400 Bad Request", Code.INVALID_INPUT, "the request has no Host header or several, expected one"
)
_NO_GRPC = _refusal(
    b"400 Bad Request",
    Code.INVALID_INPUT,
    "this is the HTTP port, which takes no HTTP/2: gRPC calls go to the gRPC port, 8001 unless set with --grpc-port",
)
NO_TLS = _refusal(
    b"400 Bad Request", Code.INVALID_INPUT, "this port speaks TLS alone: its address begins with https://"
)
TOO_SLOW = _refusal(b"408 Request Timeout", Code.DEADLINE_EXCEEDED, "no more of the request has come for too long")
SHUTTING_DOWN = _refusal(
    b"503 Service Unavailable",
    Code.SHUTTING_DOWN,
    shutting_down().message,
    b"retry-after: %b\r\n" % ELSEWHERE_AFTER_S.encode(),
)
