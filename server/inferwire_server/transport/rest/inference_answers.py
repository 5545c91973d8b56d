"""From a request's body to an inference, and from an ended job to an answer's body.

What the inference call and the asynchronous jobs have in common. Long JSON is read and written on
threads: it would hold everybody else up.
"""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from starlette.requests import Request
from starlette.responses import Response

from inferwire_server.core.job import Job
from inferwire_server.service import Services
from inferwire_server.service.values import ServedModel
from inferwire_server.transport import oip
from inferwire_server.transport.rest import oip_answer
from inferwire_server.transport.rest.binary_extension import HEADER_LENGTH, RAW, Tail, header_length, raw_input
from inferwire_server.transport.rest.bodies import read_body
from inferwire_server.transport.rest.oip_answer import Written
from inferwire_server.transport.rest.oip_request import AnswerForm, OipRequest, parse
from inferwire_server.transport.rest.responses import JSON

OCTETS = "application/octet-stream"

LONG_JSON = 64 * 1024
"""From how many bytes on JSON is read and written on a thread."""

_COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


def named_model(request: Request) -> ServedModel:
    """Give the model that a request's path names."""
    path = request.path_params
    return ServedModel(path["model"], path.get("version", ""))


async def read_request(services: Services, request: Request, max_body_bytes: int) -> OipRequest:
    """Read an inference request from its body.

    Raises:
        ServingError: If the model is not there, or the body is no request.
    """
    model = named_model(request)
    spec = services.models.resolve(model).spec
    body = await read_body(request, max_body_bytes)
    received_at = monotonic()
    length = header_length(request.headers.get(HEADER_LENGTH), len(body))
    if length == RAW and HEADER_LENGTH in request.headers:
        call = oip.OipCall(model.name, model.version, (raw_input(spec, body),))
        return OipRequest(call, AnswerForm(is_binary=True), received_at)
    view = memoryview(body)
    if length > LONG_JSON:
        parsed = await asyncio.to_thread(parse, view[:length], Tail(view[length:]), model)
    else:
        parsed = parse(view[:length], Tail(view[length:]), model)
    return replace(parsed, received_at=received_at)


async def answer(request: Request, services: Services, parsed: OipRequest, job: Job) -> Response:
    """Answer with the outputs of an ended job.

    Raises:
        ServingError: Why it has none, or that its outputs cannot be written so.
    """
    outputs = oip.answer(services, parsed.call, job)
    if oip_answer.json_byte_size(outputs, parsed.form) > LONG_JSON:
        written = await asyncio.to_thread(oip_answer.write, outputs, parsed.form)
    else:
        written = oip_answer.write(outputs, parsed.form)
    return await _respond(request, written, _timings(job))


async def _respond(request: Request, written: Written, headers: dict[str, str]) -> Response:
    body = written.body
    if written.header_length is not None:
        headers[HEADER_LENGTH] = str(written.header_length)
    # Many libraries accept every coding by habit, and tensors hardly shrink: only a caller
    # that asks for one coding and no other pays for it.
    encoding = request.headers.get("accept-encoding", "")
    if encoding in _COMPRESS:
        body = await asyncio.to_thread(_COMPRESS[encoding], body)
        headers["content-encoding"] = encoding
        headers["vary"] = "accept-encoding"
    return Response(body, 200, headers, JSON if written.header_length is None else OCTETS)


def _timings(job: Job) -> dict[str, str]:
    timings = job.timings
    return {
        "inferwire-queue-us": str(round(timings.queue_s * 1e6)),
        "inferwire-inference-us": str(round(timings.inference_s * 1e6)),
        "inferwire-total-us": str(round(timings.total_s * 1e6)),
    }
