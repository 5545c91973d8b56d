"""HTTP calls between workers: a request and its answer as bytes, and an application that answers one."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.types import ASGIApp, Scope, Send

from inferwire_server.core.callers import at_host
from inferwire_server.errors import bug
from inferwire_server.transport.http.exchange import EXTENSION, Exchanged, Headers
from inferwire_server.transport.request_ids import HEADER

_LENGTH = 4


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request with its whole body, as it came."""

    method: str
    path: str
    raw_path: bytes
    query: bytes
    headers: Headers
    body: bytes

    def encode(self) -> bytes:
        """Write it as bytes."""
        texts = [self.method, self.path, _text(self.raw_path), _text(self.query)]
        return _joined([texts, _texts(self.headers)], self.body)

    @staticmethod
    def decode(data: bytes) -> HttpRequest:
        """Read what `encode` has written."""
        ((method, path, raw_path, query), headers), body = _split(data)
        return HttpRequest(method, path, _bytes(raw_path), _bytes(query), _headers(headers), body)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer with its whole body."""

    status: int
    headers: Headers
    body: bytes

    def encode(self) -> bytes:
        """Write it as bytes."""
        return _joined([self.status, _texts(self.headers)], self.body)

    @staticmethod
    def decode(data: bytes) -> HttpAnswer:
        """Read what `encode` has written."""
        (status, headers), body = _split(data)
        return HttpAnswer(status, _headers(headers), body)

    def with_body(self, body: bytes) -> HttpAnswer:
        """Give the answer with another body."""
        kept = [header for header in self.headers if header[0] != b"content-length"]
        return HttpAnswer(self.status, [*kept, (b"content-length", b"%d" % len(body))], body)


async def answer_of(app: ASGIApp, request: HttpRequest) -> HttpAnswer:
    """Have an application answer a request that is on no connection of this worker."""
    events = iter([{"type": "http.request", "body": request.body, "more_body": False}])
    answer: dict[str, Any] = {}
    parts: list[bytes] = []

    async def receive() -> MutableMapping[str, Any]:
        return next(events, {"type": "http.disconnect"})

    async def send(event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            answer.update(event)
        else:
            parts.append(event.get("body", b""))

    await app(_scope(request), receive, send)
    return HttpAnswer(answer["status"], list(answer.get("headers", ())), b"".join(parts))


class _NoConnection:
    """Stands for the connection of a request whose caller is connected to another worker, which watches it.

    Attributes:
        caller: One for the callers of all such requests together, for turns among callers.
    """

    caller = at_host("")

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id

    @property
    def connection(self) -> _NoConnection:
        """Stand for the connection, too."""
        return self

    async def wait_for_body(self) -> None:
        """Do nothing: the body is complete."""

    def take_body(self) -> None:
        """Give no body: the application has to receive it as an event."""

    def takes(self, send: Send) -> bool:  # noqa: ARG002 - whatever it is
        """Whether events may be left out."""
        return False

    async def answer(self, headers: Headers, body: bytes) -> None:  # noqa: ARG002 - there is none
        """Fail: it takes events alone."""
        raise bug("an answer was given to a connection that is not there")

    def watch(self, on_lost: Callable[[], None]) -> None:
        """Do nothing: if its caller leaves, the other worker cancels the call."""

    def unwatch(self) -> None:
        """Do nothing."""


def _scope(request: HttpRequest) -> Scope:
    exchange: Exchanged = _NoConnection(_text(dict(request.headers).get(HEADER, b"")))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": "http",
        "method": request.method,
        "path": request.path,
        "raw_path": request.raw_path,
        "root_path": "",
        "query_string": request.query,
        "headers": request.headers,
        "client": None,
        "server": None,
        "extensions": {EXTENSION: lambda: exchange},
    }


def _joined(head: object, body: bytes) -> bytes:
    written = orjson.dumps(head)
    return b"".join((len(written).to_bytes(_LENGTH), written, body))


def _split(data: bytes) -> tuple[Any, bytes]:
    end = _LENGTH + int.from_bytes(data[:_LENGTH])
    return orjson.loads(data[_LENGTH:end]), data[end:]


def _text(content: bytes) -> str:
    return content.decode("latin-1")


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


def _texts(headers: Headers) -> list[tuple[str, str]]:
    return [(_text(name), _text(value)) for name, value in headers]


def _headers(texts: Sequence[Sequence[str]]) -> Headers:
    return [(_bytes(name), _bytes(value)) for name, value in texts]
