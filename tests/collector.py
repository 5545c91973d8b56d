"""A collector of OpenTelemetry: takes spans by OTLP over HTTP, on a port of this machine."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.waiting import LIMIT_S

Attributes = dict[str, str | int]


class Collected(NamedTuple):
    """A span as it was received."""

    name: str
    kind: str
    trace_id: str
    id: str
    parent_id: str
    begun_ns: int
    ended_ns: int
    attributes: Attributes
    error: str
    resource: Attributes


@dataclass(frozen=True, slots=True)
class Collector:
    """The address to send spans to, and the spans received; it answers while `answers` is set."""

    address: str
    spans: SimpleQueue[Collected]
    answers: Event

    def take(self, count: int) -> list[Collected]:
        """Wait for so many spans."""
        return [self.spans.get(timeout=LIMIT_S) for _ in range(count)]


@contextmanager
def collecting() -> Generator[Collector]:
    """Take spans until the block is left."""
    spans: SimpleQueue[Collected] = SimpleQueue()
    answers = Event()
    answers.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answers.wait(LIMIT_S)
            for span in _spans(ExportTraceServiceRequest.FromString(body)):
                spans.put(span)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base has it
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield Collector(f"http://127.0.0.1:{server.server_port}", spans, answers)
        finally:
            answers.set()
            server.shutdown()
            thread.join()


def _spans(request: ExportTraceServiceRequest) -> Generator[Collected]:
    for of_resource in request.resource_spans:
        resource = _attributes(of_resource.resource)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield Collected(
                    span.name,
                    span.SpanKind.Name(span.kind),
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    _attributes(span),
                    span.status.message,
                    resource,
                )


def _attributes(of: Any) -> Attributes:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in of.attributes}
