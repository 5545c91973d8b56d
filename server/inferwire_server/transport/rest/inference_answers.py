"""From a request's body to an inference, and from an ended job to an answer's body.

What the inference call and the asynchronous jobs have in common. Long JSON is read and written on
a thread: on the event loop it would hold up all other calls.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import zlib
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from inferwire_server.core.scheduling.job import Job
from inferwire_server.gil_thread import GilThread
from inferwire_server.service import Services
from inferwire_server.service.values import Inference, ServedModel, Wanted
from inferwire_server.transport.http.bodies import LONG_JSON, read_body
from inferwire_server.transport.http.exchange import Body, Headers
from inferwire_server.transport.http.request_headers import header
from inferwire_server.transport.http.responses import JSON, BytesResponse
from inferwire_server.transport.oip.inference import answer_of, wanted_of
from inferwire_server.transport.rest import oip_answer
from inferwire_server.transport.rest.binary_extension import HEADER_LENGTH, RAW, Tail, header_length, raw_input
from inferwire_server.transport.rest.oip_answer import Written
from inferwire_server.transport.rest.oip_request import (
    LONGEST_KNOWN,
    AnswerForm,
    OipDocument,
    parse,
    parse_known,
    parse_long,
)

OCTETS = b"application/octet-stream"

_LEVEL = zlib.Z_BEST_SPEED
"""How hard answers are compressed: the usual level takes six times as long for little less, the highest a hundred."""

_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": partial(gzip.compress, compresslevel=_LEVEL),
    "deflate": partial(zlib.compress, level=_LEVEL),
}

_WEIGHED = re.compile(r"([a-z]+)[ \t]*;[ \t]*q=(?!0(?:\.0*)?$)[01](?:\.[0-9]*)?")
"""One coding that is accepted with a weight, which is not 0."""


class InferenceRequest(NamedTuple):
    """An inference, how its answer is written, and when it had been received."""

    inference: Inference
    form: AnswerForm
    received_at: float


def named_model(request: Request) -> ServedModel:
    """Give the model that a request's path names."""
    path = request.path_params
    return ServedModel(path["model"], path.get("version", ""))


async def read_request(services: Services, request: Request, max_body_bytes: int) -> InferenceRequest:
    """Read an inference request from its body.

    Raises:
        ServingError: If the model is not there, or the body is no request.
    """
    model = named_model(request)
    spec = services.models.resolve(model).spec
    body = await read_body(request, max_body_bytes)
    received_at = monotonic()
    stated = header(request.scope, HEADER_LENGTH)
    length = header_length(stated, len(body))
    if length == RAW and stated is not None:
        inference = Inference(wanted_of(model), (raw_input(spec, body),))
        return InferenceRequest(inference, AnswerForm(is_binary=True), received_at)
    document = await _parsed(services.gil_thread, body, length, model)
    return InferenceRequest(document.inference(Tail(memoryview(body)[length:])), document.form, received_at)


async def _parsed(gil_thread: GilThread, body: Body, length: int, model: ServedModel) -> OipDocument:
    """Read the document that a body begins with. A short one before tensors is kept: it is likely to come again."""
    if length < len(body) and length <= LONGEST_KNOWN:
        return parse_known(bytes(body[:length]), model)
    if length > LONG_JSON:
        return await gil_thread.run(parse_long, memoryview(body)[:length], model)
    return parse(memoryview(body)[:length], model)


async def answer(request: Request, services: Services, wanted: Wanted, form: AnswerForm, job: Job) -> Response:
    """Answer with the outputs of an ended job.

    Raises:
        ServingError: Why it has none, or that its outputs cannot be written so.
    """
    outputs = answer_of(services, wanted, job)
    if oip_answer.json_byte_size(outputs, form) > LONG_JSON:
        written = await services.gil_thread.run(oip_answer.write, outputs, form)
    else:
        written = oip_answer.write(outputs, form)
    return await _respond(request, written, _timings(job))


async def _respond(request: Request, written: Written, headers: Headers) -> Response:
    body, content_type = written.body, JSON
    if written.header_length is not None:
        content_type = OCTETS
        headers.append((HEADER_LENGTH, b"%d" % written.header_length))
    # Many libraries accept every coding by habit, and tensors hardly shrink: only a caller
    # that asks for one coding and no other pays for it.
    encoding = header(request.scope, b"accept-encoding")
    if encoding is not None and ";" in encoding:
        encoding = _weighed(encoding)
    if encoding in _COMPRESS:
        body = await asyncio.to_thread(_COMPRESS[encoding], body)
        headers += [(b"content-encoding", encoding.encode()), (b"vary", b"accept-encoding")]
    return BytesResponse(body, content_type, headers)


def _weighed(accepted: str) -> str:
    """Give the coding without its weight, unless that is 0: gzip for gzip;q=1.0."""
    weighed = _WEIGHED.fullmatch(accepted)
    return weighed[1] if weighed else ""


def _timings(job: Job) -> Headers:
    timings = job.timings
    return [
        (b"inferwire-queue-us", b"%d" % round(timings.queue_s * 1e6)),
        (b"inferwire-inference-us", b"%d" % round(timings.inference_s * 1e6)),
        (b"inferwire-total-us", b"%d" % round(timings.total_s * 1e6)),
    ]
