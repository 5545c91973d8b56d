"""Answers as HTTP says them: JSON bodies, and errors with the status of their code.

The one place that knows what an error looks like to an HTTP client.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from inferwire_proto.errors import Code
from inferwire_proto.openvino_errors import without_places
from inferwire_server.errors import ServingError
from inferwire_server.transport.http.exchange import Headers, exchange_of

ELSEWHERE_AFTER_S = "1"
"""After how many seconds a caller that is sent away may come again: by then another server answers at the address."""

JSON = b"application/json"


class BytesResponse(Response):
    """An answer of 200 that is bytes already: nothing is left to be encoded or looked at."""

    def __init__(self, body: bytes, content_type: bytes, headers: Headers) -> None:
        self.status_code = 200
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, by the shortest way there is."""
        exchange = exchange_of(scope)
        if exchange.takes(send):
            await exchange.answer(self.raw_headers, self.body)
        else:
            await super().__call__(scope, receive, send)


def json_response(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with a small JSON document."""
    return Response(orjson.dumps(content), status, headers, JSON.decode())


def error_response(error: ServingError) -> Response:
    """Answer with why a call was not served."""
    headers: dict[str, str] = {}
    if error.retry_after_s is not None:
        headers["retry-after"] = str(max(1, ceil(error.retry_after_s)))
    elif error.code is Code.SHUTTING_DOWN:
        headers["retry-after"] = ELSEWHERE_AFTER_S
    if error.code is Code.UNAUTHENTICATED:
        headers["www-authenticate"] = "Bearer"
    return problem(error.status.http, error.code, error.message, headers)


def problem(status: int, code: Code, message: str, headers: Mapping[str, str] | None) -> Response:
    """Answer with a sentence and its code, under a status that need not be the code's own."""
    return Response(error_body(code, message), status, headers, JSON.decode())


def error_body(code: Code, message: str) -> bytes:
    """Write an error as the body of an answer."""
    return orjson.dumps(error_members(code, message))


def error_members(code: Code, message: str) -> dict[str, str]:
    """Give what an error has in JSON, wherever it stands; of OpenVINO's, without where in its source it arose."""
    return {"error": without_places(message), "code": code.name}
