"""The same photos classified in four ways: this is the file to read for how a program uses inferwire."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from time import perf_counter
from typing import Any

import numpy as np

import inferwire as ov
from inferwire_cli.demo.photos import Floats, Photo

MODEL = "efficientnet_lite0"
QUEUE_JOBS = 4
REST_TIMEOUT_S = 60.0
HEADER_LENGTH = "Inference-Header-Content-Length"


@dataclass(frozen=True, slots=True)
class Answer:
    """One photo's logits f32[1,1000] and where the time went, in milliseconds."""

    photo: str
    logits: Floats
    queue_ms: float
    inference_ms: float
    wire_ms: float


Way = Callable[[Sequence[Photo]], list[Answer]]


def answer_of(request: ov.InferRequest, photo: str) -> Answer:
    """Take what one request computed, before it is used again."""
    timings = request.timings
    logits = request.get_output_tensor().data.copy()
    return Answer(photo, logits, timings.queue_ms, timings.inference_ms, timings.wire_ms)


def infer(compiled: ov.CompiledModel, photos: Sequence[Photo]) -> list[Answer]:
    """Call and wait for the outputs, one photo after the other."""
    request = compiled.create_infer_request()
    answers: list[Answer] = []
    for photo in photos:
        request.infer({"image": photo.pixels})
        answers.append(answer_of(request, photo.name))
    return answers


def start_and_wait(compiled: ov.CompiledModel, photos: Sequence[Photo]) -> list[Answer]:
    """Start every photo at once, then collect the answers in order."""
    requests = [compiled.create_infer_request() for _ in photos]
    for request, photo in zip(requests, photos, strict=True):
        request.start_async({"image": photo.pixels})
    for request in requests:
        request.wait()
    return [answer_of(request, photo.name) for request, photo in zip(requests, photos, strict=True)]


def through_a_queue(compiled: ov.CompiledModel, photos: Sequence[Photo]) -> list[Answer]:
    """Keep a pool of requests busy; a callback takes each answer as it comes."""
    answers: list[Answer] = []
    queue = ov.AsyncInferQueue(compiled, QUEUE_JOBS)
    queue.set_callback(lambda request, photo: answers.append(answer_of(request, photo)))
    for photo in photos:
        queue.start_async({"image": photo.pixels}, userdata=photo.name)
    queue.wait_all()
    return answers


def over_rest(host: str, port: int, photos: Sequence[Photo]) -> list[Answer]:
    """Post each tensor's bytes behind a JSON header: the Open Inference Protocol, binary extension."""
    with closing(HTTPConnection(host, port, timeout=REST_TIMEOUT_S)) as connection:
        return [post(connection, photo) for photo in photos]


def post(connection: HTTPConnection, photo: Photo) -> Answer:
    """Make one REST call, and measure the part of its time that the server does not report."""
    tensor = photo.pixels.tobytes()
    header = rest_header(photo.pixels.shape, len(tensor))
    headers = {"Content-Type": "application/octet-stream", HEADER_LENGTH: str(len(header))}
    start = perf_counter()
    connection.request("POST", f"/v2/models/{MODEL}/infer", header + tensor, headers)
    response = connection.getresponse()
    body = response.read()
    took_ms = (perf_counter() - start) * 1000
    if response.status != 200:
        raise RuntimeError(f"REST answered {response.status}, expected 200: {body.decode(errors='replace')}")
    split = int(response.headers[HEADER_LENGTH])
    described: dict[str, Any] = json.loads(body[:split])
    (output,) = described["outputs"]
    shape: list[int] = output["shape"]
    logits = np.frombuffer(body, np.float32, offset=split).reshape(shape)
    queue_ms, inference_ms, server_ms = (
        int(response.headers[f"inferwire-{part}-us"]) / 1000 for part in ("queue", "inference", "total")
    )
    return Answer(photo.name, logits, queue_ms, inference_ms, took_ms - server_ms)


def rest_header(shape: Sequence[int], size: int) -> bytes:
    """Describe the tensor that follows, and ask for the output as bytes too."""
    image = {"name": "image", "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": size}}
    logits = {"name": "logits", "parameters": {"binary_data": True}}
    return json.dumps({"inputs": [image], "outputs": [logits]}).encode()


def four_ways(grpc_address: str, http_host: str, http_port: int) -> Iterator[tuple[str, Way]]:
    """Yield each way with its name; taking the first connects to the server."""
    compiled = ov.Core(grpc_address).served_model(MODEL)
    yield "infer", lambda photos: infer(compiled, photos)
    yield "start_async + wait", lambda photos: start_and_wait(compiled, photos)
    yield "AsyncInferQueue", lambda photos: through_a_queue(compiled, photos)
    yield "REST", lambda photos: over_rest(http_host, http_port, photos)
