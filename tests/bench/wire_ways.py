"""The ways that speak the Open Inference Protocol: prepared bytes over raw gRPC and over HTTP.

The requests are made once, so that the load generator costs as little as Python allows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import grpc
import grpc.aio
import numpy as np
from tests.bench.load import Answered, Way, check
from tests.bench.networks import Array, Network

from inferwire_server.transport.oip_stubs import grpc_service_pb2 as oip

Call = Callable[[], Awaitable[Array]]
METHOD = "/inference.GRPCInferenceService/ModelInfer"
LARGEST = 256 * 1024 * 1024


def grpc_unary(address: str, network: Network, expected: Array) -> Way:
    """ModelInfer calls on one connection."""
    names = _names(network)
    request = oip.ModelInferRequest(model_name=network.name, raw_input_contents=[network.sample.tobytes()])
    request.inputs.add(name=names[0], datatype="FP32", shape=network.sample.shape)
    payload = request.SerializeToString()

    async def run(seconds: float) -> Answered:
        limits = [("grpc.max_receive_message_length", LARGEST), ("grpc.max_send_message_length", LARGEST)]
        async with grpc.aio.insecure_channel(address, options=limits) as channel:
            method: Any = channel.unary_unary(METHOD)

            async def call() -> Array:
                answer = oip.ModelInferResponse.FromString(await method(payload))
                return np.frombuffer(answer.raw_output_contents[0], np.float32).reshape(expected.shape)

            return await _closed_loop([call] * network.in_flight, seconds, expected, "OIP gRPC")

    return lambda seconds: asyncio.run(run(seconds))


def rest_binary(host: str, port: int, network: Network, expected: Array) -> Way:
    """Infer calls with binary tensors, each on a connection that is kept."""
    names = _names(network)
    header = json.dumps(
        {
            "inputs": [
                {
                    "name": names[0],
                    "datatype": "FP32",
                    "shape": network.sample.shape,
                    "parameters": {"binary_data_size": network.sample.nbytes},
                }
            ],
            "outputs": [{"name": names[1], "parameters": {"binary_data": True}}],
        }
    ).encode()
    head = (
        f"POST /v2/models/{network.name}/infer HTTP/1.1\r\nHost: {host}\r\n"
        f"Inference-Header-Content-Length: {len(header)}\r\n"
        f"Content-Length: {len(header) + network.sample.nbytes}\r\n\r\n"
    ).encode()
    payload = b"".join((head, header, network.sample.tobytes()))

    async def run(seconds: float) -> Answered:
        connections = [await asyncio.open_connection(host, port) for _ in range(network.in_flight)]
        calls = [_http_call(reader, writer, payload, expected) for reader, writer in connections]
        try:
            return await _closed_loop(calls, seconds, expected, "REST binary")
        finally:
            for _, writer in connections:
                writer.close()
                await writer.wait_closed()

    return lambda seconds: asyncio.run(run(seconds))


def _http_call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, payload: bytes, expected: Array) -> Call:
    async def call() -> Array:
        writer.write(payload)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = (line.partition(b":") for line in head.split(b"\r\n")[1:])
        headers = {name.strip().lower(): value.strip() for name, _, value in lines}
        body = await reader.readexactly(int(headers[b"content-length"]))
        if not head.startswith(b"HTTP/1.1 200"):
            raise AssertionError(f"REST answered {head!r} {body!r}")
        tensor = body[int(headers[b"inference-header-content-length"]) :]
        return np.frombuffer(tensor, np.float32).reshape(expected.shape)

    return call


async def _closed_loop(calls: list[Call], seconds: float, expected: Array, way: str) -> Answered:
    """Keep every call busy: the next one starts when the last has answered."""
    latencies: list[float] = []
    start = perf_counter()

    async def keep_busy(call: Call) -> None:
        now = perf_counter()
        while now - start < seconds:
            answer = await call()
            done = perf_counter()
            latencies.append(done - now)
            check(answer, expected, way)
            now = done

    async with asyncio.TaskGroup() as tasks:
        for call in calls:
            tasks.create_task(keep_busy(call))
    return Answered(latencies, perf_counter() - start)


def _names(network: Network) -> tuple[str, str]:
    return ("pixels", "probabilities") if network.name == "digits_mlp" else ("image", "probabilities")
