"""Traces of inferences, sent to an OpenTelemetry collector.

A job is a span: of the trace that its caller's headers name, or else of one of its own. Below it are a span of its time
in the queue and one of its time in a slot. OpenTelemetry's own environment variables, which its SDK reads, say where
spans are sent, and which of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import environ
from time import time_ns
from typing import NamedTuple

import structlog
from opentelemetry.context import Context, attach, create_key, detach, get_current, get_value, set_value
from opentelemetry.environment_variables import OTEL_TRACES_EXPORTER
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import (
    OTEL_EXPORTER_OTLP_ENDPOINT,
    OTEL_EXPORTER_OTLP_PROTOCOL,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
    OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from inferwire_server.core.scheduling.job import Job, JobState, state_of
from inferwire_server.core.scheduling.tally import REFUSED
from inferwire_server.engine.engine import Submission
from inferwire_server.engine.models import Model, model_of
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service.health import Identity
from inferwire_server.tallies import labels_of

log = structlog.stdlib.get_logger()

_FLUSH_S = 2.0
"""How long the last spans may take to reach the collector when the server ends."""

_W3C = TraceContextTextMapPropagator()
_HEADERS = frozenset(_W3C.fields)
"""The headers of a request that are read. Baggage is not: it would be kept and logged, and nothing would use it."""

_REQUEST_ID = create_key("request id")
"""Where a context has the id of the request that it is of."""


class Traces:
    """Sends spans. Jobs are timed by `clock`, in seconds."""

    def __init__(self, identity: Identity, clock: Callable[[], float]) -> None:
        """Begin to send, in the name that the server has, or OTEL_SERVICE_NAME.

        Raises:
            ServingError: INVALID_INPUT if OpenTelemetry's variables cannot be followed.
        """
        _check_variables()
        try:
            self._exporter = OTLPSpanExporter()
            self._provider = TracerProvider(resource=_resource(identity), shutdown_on_exit=False)
            self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        except (ImportError, RuntimeError, ValueError) as error:
            raise invalid_input(f"OpenTelemetry's variables do not let --traces send any: {error}") from error
        self._tracer = self._provider.get_tracer("inferwire", identity.version)
        self._clock = clock

    @contextmanager
    def join(self, headers: Iterable[tuple[str, str]], request_id: str) -> Generator[None]:
        """Have jobs that are submitted inside belong to the trace that a request's headers name, if they name one.

        They tell the request's id, unless it is empty.
        """
        named: dict[str, str] = {}
        for name, value in headers:
            if name in _HEADERS:
                # Several `tracestate` are joined; several `traceparent` are invalid, and name no trace.
                named[name] = f"{named[name]},{value}" if name in named else value
        token = attach(set_value(_REQUEST_ID, request_id, _W3C.extract(named, Context())))
        try:
            yield
        finally:
            detach(token)

    def current(self) -> JobTrace:
        """Give the trace that a job is part of which is submitted now."""
        return JobTrace(self._tracer, get_current(), self._clock)

    async def close(self) -> None:
        """Send the spans that are left, but not for ever."""
        sending = asyncio.ensure_future(asyncio.to_thread(self._provider.shutdown))
        await asyncio.wait([sending], timeout=_FLUSH_S)
        if sending.done():
            sending.result()
            return
        log.warning("the last traces may not have been sent: the collector does not take them")
        # It then tries no more, which ends the thread unless the collector has a request that it does not answer.
        self._exporter.shutdown()


class Stretch(NamedTuple):
    """Something that took time, by the clock of jobs."""

    name: str
    begun_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class JobTrace:
    """The trace that a job is part of."""

    tracer: Tracer
    context: Context
    clock: Callable[[], float]

    def end(self, job: Job) -> None:
        """Record a job that has ended."""
        ended_at = job.submitted_at + job.timings.total_s
        slot_at = ended_at if job.started_at is None else job.started_at
        queue, inference = Stretch("queue", job.submitted_at, slot_at), Stretch("inference", slot_at, ended_at)
        whole = Stretch("infer", _begun_at(job.received_at, job.submitted_at), ended_at)
        self._record(
            whole,
            (queue,) if job.started_at is None else (queue, inference),
            _attributes(model_of(job), job.work.executions, job.outcome),
            next((result for result in job.apart if isinstance(result, ServingError) and _is_error(result)), job.error),
        )

    def refuse(self, model: Model, submission: Submission, error: ServingError) -> None:
        """Record that a job was not admitted."""
        now = self.clock()
        whole = Stretch("infer", _begun_at(submission.received_at, now), now)
        self._record(whole, (), _attributes(model, submission.work.executions, REFUSED), error)

    def _record(
        self,
        whole: Stretch,
        parts: Sequence[Stretch],
        attributes: Mapping[str, AttributeValue],
        error: ServingError | None,
    ) -> None:
        if request_id := get_value(_REQUEST_ID, self.context):
            attributes = {**attributes, "inferwire.request_id": str(request_id)}
        epoch_ns = time_ns() - _nanoseconds(self.clock())
        span = self.tracer.start_span(
            whole.name, self.context, SpanKind.SERVER, attributes, start_time=epoch_ns + _nanoseconds(whole.begun_at)
        )
        if span.is_recording():
            within = set_span_in_context(span, self.context)
            for name, begun_at, ended_at in parts:
                part = self.tracer.start_span(name, within, start_time=epoch_ns + _nanoseconds(begun_at))
                part.end(epoch_ns + _nanoseconds(ended_at))
            if error is not None and _is_error(error):
                span.set_attribute("error.type", error.code.name)
                span.set_status(Status(StatusCode.ERROR, error.message))
        span.end(epoch_ns + _nanoseconds(whole.ended_at))


def _resource(identity: Identity) -> Resource:
    """Say who sends spans: what the environment says goes before what the server is called."""
    own = {
        "service.name": identity.name,
        "service.version": identity.version,
        "service.instance.id": identity.epoch,
    }
    return Resource.create(own).merge(OTELResourceDetector().detect())


def _check_variables() -> None:
    """Refuse what the environment says of how spans are sent, if they cannot be sent so.

    Raises:
        ServingError: INVALID_INPUT.
    """
    _check((OTEL_TRACES_EXPORTER,), "otlp, which --traces sends by", lambda given: given == "otlp")
    protocols = (OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, OTEL_EXPORTER_OTLP_PROTOCOL)
    _check(protocols, "http/protobuf, which --traces sends by", lambda given: given == "http/protobuf")
    endpoints = (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT)
    _check(endpoints, "a URL such as http://127.0.0.1:4318", lambda given: given.startswith(("http://", "https://")))


def _check(names: Sequence[str], expected: str, is_good: Callable[[str], bool]) -> None:
    """Refuse what the first of several variables that is set says."""
    name, given = next(((name, given) for name in names if (given := environ.get(name))), ("", ""))
    if given and not is_good(given):
        raise invalid_input(f"{name} is '{given}', expected {expected}")


def _attributes(model: Model, executions: int, outcome: str) -> Mapping[str, AttributeValue]:
    """Say of a job what its metrics are labelled with, and of how many executions it is."""
    name, version = labels_of(model)
    return {
        "inferwire.model": name,
        "inferwire.version": version,
        "inferwire.device": model.device.name,
        "inferwire.executions": executions,
        "inferwire.outcome": str(outcome),
    }


def _is_error(error: ServingError) -> bool:
    """Whether something has gone wrong: not where the caller has cancelled."""
    return state_of(error) is not JobState.CANCELLED


def _begun_at(received_at: float | None, submitted_at: float) -> float:
    """Say when a call began, of which it may be known when it was read."""
    return submitted_at if received_at is None else received_at


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
