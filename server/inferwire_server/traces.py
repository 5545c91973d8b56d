"""Traces of inferences, sent to an OpenTelemetry collector.

A job is a span: of the trace that its caller's headers name, or else of one of its own. Below it are a span of its time
in the queue and one of its time in a slot. Where they are sent, and which of them, OpenTelemetry's own variables of the
environment say, which its SDK reads.
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
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.environment_variables import OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from inferwire_server.core.scheduling.job import Job, JobState, state_of
from inferwire_server.core.scheduling.tally import REFUSED
from inferwire_server.engine.engine import Submission
from inferwire_server.engine.models import Model, model_of
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.repository.tallies import labels_of
from inferwire_server.service.health import Identity

log = structlog.stdlib.get_logger()

_FLUSH_S = 2.0
"""How long the last spans may take to reach the collector when the server ends."""

_PROTOCOL = "http/protobuf"


class Traces:
    """Sends spans. Jobs are timed by `clock`, in seconds."""

    def __init__(self, identity: Identity, clock: Callable[[], float]) -> None:
        """Begin to send, in the name that the server has, or OTEL_SERVICE_NAME.

        Raises:
            ServingError: INVALID_INPUT if OpenTelemetry's variables cannot be followed.
        """
        _check_protocol()
        try:
            self._exporter = OTLPSpanExporter()
            self._provider = TracerProvider(resource=_resource(identity), shutdown_on_exit=False)
            self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        except ValueError as error:
            raise invalid_input(f"OpenTelemetry's variables do not let --traces send any: {error}") from error
        self._tracer = self._provider.get_tracer("inferwire", identity.version)
        self._clock = clock

    @contextmanager
    def adopt(self, headers: Iterable[tuple[str, str | bytes]]) -> Generator[None]:
        """Have jobs that are submitted inside belong to the trace that a request's headers name, if they name one."""
        token = attach(extract({name: value for name, value in headers if isinstance(value, str)}))
        try:
            yield
        finally:
            detach(token)

    def current(self) -> JobTrace:
        """Give the trace that a job is part of which is submitted now."""
        return JobTrace(self._tracer, get_current(), self._clock)

    async def close(self) -> None:
        """Send what is left, but not for ever."""
        sending = asyncio.ensure_future(asyncio.to_thread(self._provider.shutdown))
        await asyncio.wait([sending], timeout=_FLUSH_S)
        if not sending.done():
            log.warning("the last traces were not sent: the collector does not take them")
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
        slot_at, ended_at = (job.submitted_at + s for s in (job.timings.queue_s, job.timings.total_s))
        queue, inference = Stretch("queue", job.submitted_at, slot_at), Stretch("inference", slot_at, ended_at)
        whole = Stretch("infer", _begun_at(job.received_at, job.submitted_at), ended_at)
        self._record(
            whole,
            (queue,) if job.started_at is None else (queue, inference),
            _attributes(model_of(job), job.count, job.state),
            next((result for result in job.apart if isinstance(result, ServingError)), job.error),
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
        epoch_ns = time_ns() - _nanoseconds(self.clock())
        span = self.tracer.start_span(
            whole.name, self.context, SpanKind.SERVER, attributes, start_time=epoch_ns + _nanoseconds(whole.begun_at)
        )
        if span.is_recording():
            within = set_span_in_context(span, self.context)
            for name, begun_at, ended_at in parts:
                part = self.tracer.start_span(name, within, start_time=epoch_ns + _nanoseconds(begun_at))
                part.end(epoch_ns + _nanoseconds(ended_at))
            if error is not None and state_of(error) is not JobState.CANCELLED:
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


def _check_protocol() -> None:
    """Refuse what the environment says of how spans are sent, if it is not how they are sent here.

    Raises:
        ServingError: INVALID_INPUT.
    """
    for name in (OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, OTEL_EXPORTER_OTLP_PROTOCOL):
        given = environ.get(name)
        if given and given != _PROTOCOL:
            raise invalid_input(f"{name} is '{given}', expected {_PROTOCOL}, by which --traces sends them")


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


def _begun_at(received_at: float | None, submitted_at: float) -> float:
    """Say when a call began, of which it may be known when it was read."""
    return submitted_at if received_at is None else received_at


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
