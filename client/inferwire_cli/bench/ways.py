"""The ways to a server that can be measured. Each sends the same inputs again and again."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from time import perf_counter
from typing import Any
from urllib.parse import quote

import numpy as np

from inferwire.errors import InferwireError, ServerUnavailable
from inferwire.graph.described import PortDescription
from inferwire.queues.infer_queue import AsyncInferQueue
from inferwire.requests.infer_request import InferRequest
from inferwire.transport.executions import ExecutionHeader, Outcome, OutputBytes, Target, TensorSpec, Timings, WireBytes
from inferwire.transport.operator_calls import ModelDetails, OperatorCalls
from inferwire_cli.bench.keepalive import Keepalive
from inferwire_cli.bench.load import Budget, Call, Sample, Spend, Tally, Way, in_threads
from inferwire_cli.infer.elements import Array, as_input
from inferwire_cli.named_server import NamedServer
from inferwire_cli.server_http import ServerHttp
from inferwire_cli.terminal import CommandError
from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME, BY_OIP

HTTP_TIMEOUT_S = 120.0
HEADER_LENGTH = "Inference-Header-Content-Length"


@dataclass(frozen=True, slots=True)
class Work:
    """The inference that is sent, and how many of it at once."""

    name: str
    version: str
    model: ModelDetails
    inputs: Mapping[int, Array]
    concurrency: int

    @property
    def ports(self) -> Sequence[PortDescription]:
        """The model's inputs."""
        return self.model.description.inputs


def sdk(server: NamedServer, work: Work) -> Way:
    """The way of the SDK: an AsyncInferQueue over one stream."""
    given = {at: as_input(array) for at, array in work.inputs.items()}

    @contextmanager
    def opened() -> Generator[Spend]:
        with closing(server.core()) as core:
            queue = AsyncInferQueue(core.served_model(work.name, work.version or None), work.concurrency)
            yield lambda budget, tally: _through(queue, given, budget, tally)

    return opened


def _sample(timings: Timings) -> Sample:
    return Sample(timings.server_ms + timings.wire_ms, timings.queue_ms, timings.inference_ms)


def _through(queue: AsyncInferQueue, given: Mapping[int, object], budget: Budget, tally: Tally) -> None:
    """Spend a budget on a queue, unless the server is lost."""
    lost: list[ServerUnavailable] = []

    def failed(_: InferRequest, __: object, error: RuntimeError) -> None:
        if isinstance(error, ServerUnavailable):
            lost.append(error)
        else:
            tally.fail(str(error))

    queue.set_callback(lambda request, _: tally.answer(_sample(request.timings)))
    queue.set_error_callback(failed)
    while not lost and budget.take():
        try:
            queue.start_async(given, share_inputs=True)
        except ServerUnavailable:
            raise
        except InferwireError as error:
            tally.fail(str(error))
        except (TypeError, ValueError, RuntimeError) as error:
            # The client would refuse the same inputs again and again.
            raise CommandError(" ".join(str(error).split())) from error
    queue.wait_all()
    if lost:
        raise lost[0]


def grpc(calls: OperatorCalls, work: Work) -> Way:
    """The way of any gRPC client: a call for each inference, on one connection."""
    specs = tuple(
        TensorSpec(at, BY_NAME[work.ports[at].element_type.type_name], array.shape)
        for at, array in sorted(work.inputs.items())
    )
    header = ExecutionHeader(Target(work.name, is_served=True, version=work.version), specs)
    raw = [wire_bytes(array) for _, array in sorted(work.inputs.items())]

    @contextmanager
    def open_call() -> Generator[Call]:
        yield lambda: _unary(calls, header, raw)

    return in_threads(open_call, work.concurrency)


def _unary(calls: OperatorCalls, header: ExecutionHeader, raw: Sequence[WireBytes]) -> Sample:
    outcomes: list[Outcome] = []
    has_ended = threading.Event()

    def deliver(outcome: Outcome, _: OutputBytes) -> None:
        outcomes.append(outcome)
        has_ended.set()

    begun = perf_counter()
    calls.infer(header, raw, deliver)
    has_ended.wait()
    (outcome,) = outcomes
    if outcome.error is not None:
        raise outcome.error
    # The server's report of its own time does not include the wire.
    total_ms = (perf_counter() - begun) * 1000
    return Sample(total_ms, outcome.timings.queue_ms, outcome.timings.inference_ms)


def rest(http: ServerHttp, work: Work) -> Way:
    """The way of the Open Inference Protocol over HTTP, tensors as bytes; a connection for each in flight."""
    header, body = rest_request(work)
    version = f"/versions/{quote(work.version, safe='')}" if work.version else ""
    path = f"/v2/models/{quote(work.name, safe='')}{version}/infer"
    headers = {"Content-Type": "application/octet-stream", HEADER_LENGTH: str(len(header)), **http.headers}

    @contextmanager
    def opened() -> Generator[Spend]:
        keepalive = Keepalive(http)

        @contextmanager
        def open_call() -> Generator[Call]:
            with keepalive.connection(HTTP_TIMEOUT_S) as connection:
                yield lambda: _post(http, keepalive, connection, path, header + body, headers)

        with in_threads(open_call, work.concurrency)() as spend, keepalive.looked_for():
            yield spend

    return opened


def rest_request(work: Work) -> tuple[bytes, bytes]:
    """Write the JSON of a request, and the tensors that follow it.

    Raises:
        CommandError: For an input of a type that the protocol has no name for.
    """
    described: list[dict[str, Any]] = []
    parts: list[WireBytes] = []
    for at, array in sorted(work.inputs.items()):
        port, data = work.ports[at], wire_bytes(array)
        element_type = BY_NAME[port.element_type.type_name]
        if element_type.oip is None:
            expected = ", ".join(BY_OIP)
            raise CommandError(
                f"input '{port.oip_name}' takes {element_type.name}, over REST expected one of {expected}"
            )
        parameters = {"binary_data_size": len(data)}
        described.append(
            {"name": port.oip_name, "datatype": element_type.oip, "shape": array.shape, "parameters": parameters}
        )
        parts.append(data)
    document = {"inputs": described, "parameters": {"binary_data_output": True}}
    return json.dumps(document).encode(), b"".join(parts)


def _post(
    http: ServerHttp,
    keepalive: Keepalive,
    connection: HTTPConnection,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
) -> Sample:
    begun = perf_counter()
    with keepalive.told_where_missing():
        connection.request("POST", path, body, dict(headers))
        response = connection.getresponse()
        beginning = response.read(1)
        if response.status == 200 and beginning != b"{":  # any other body may never end
            raise CommandError(
                f"what answers at {http.address} does not speak the Open Inference Protocol: is it the HTTP port of "
                "an inference server?"
            )
        rest_of_it = response.read()
    total_ms = (perf_counter() - begun) * 1000
    if response.status != 200:
        raise http.refusal(response.status, beginning + rest_of_it)
    return Sample(total_ms, _server_ms(response, "queue"), _server_ms(response, "inference"))


def _server_ms(response: HTTPResponse, part: str) -> float | None:
    """Give a time that an answer reports; answers of other servers, or through some proxies, do not."""
    said = response.headers[f"inferwire-{part}-us"] or ""
    return int(said) / 1000 if said.isascii() and said.isdigit() else None


def wire_bytes(array: Array) -> bytes:
    """Give an array as it is sent."""
    if array.dtype.kind in "OSU":
        return strings.pack(each if isinstance(each, bytes) else str(each).encode() for each in array.reshape(-1))
    return np.ascontiguousarray(array).tobytes()
