"""Requests that are prepared once, so that sending them costs as little as possible."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from tests.bench.networks import Array, Network

from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip

DATATYPES = {"float32": "FP32", "uint8": "UINT8"}
HEADER_LENGTH = "Inference-Header-Content-Length"


@dataclass(frozen=True, slots=True)
class Request:
    """A request that is sent again and again, and how its answer is read.

    Attributes:
        path: Where it goes: a gRPC method or an HTTP path.
        body: A gRPC message or an HTTP body.
        read: Reads the output from the answer's message or body.
        headers: The headers of HTTP.
    """

    path: str
    body: bytes
    read: Callable[[bytes], Array]
    headers: dict[str, str] = field(default_factory=dict[str, str])


def oip_grpc(network: Network, expected: Array) -> Request:
    """ModelInfer of the Open Inference Protocol."""

    def read(answer: bytes) -> Array:
        raw = oip.ModelInferResponse.FromString(answer).raw_output_contents
        return _array(raw[0], expected)

    return Request("/inference.GRPCInferenceService/ModelInfer", _message(network), read)


def oip_grpc_stream(network: Network, expected: Array) -> Request:
    """A message of ModelStreamInfer."""

    def read(answer: bytes) -> Array:
        message = oip.ModelStreamInferResponse.FromString(answer)
        if message.error_message:
            raise AssertionError(f"the stream answered {message.error_message!r}")
        return _array(message.infer_response.raw_output_contents[0], expected)

    return Request("/inference.GRPCInferenceService/ModelStreamInfer", _message(network), read)


def oip_grpc_shared(network: Network, expected: Array, region: str) -> Request:
    """ModelInfer whose input lies in a registered region of shared memory; the answer comes as bytes."""
    described, plain = _described(network), oip_grpc(network, expected)
    request = oip.ModelInferRequest(model_name=network.name)
    given = request.inputs.add(name=described["name"], datatype=described["datatype"], shape=described["shape"])
    given.parameters["shared_memory_region"].string_param = region
    given.parameters["shared_memory_byte_size"].int64_param = network.sample.nbytes
    return Request(plain.path, request.SerializeToString(), plain.read)


def registration(region: str, key: str, byte_size: int) -> Request:
    """Registers a region of shared memory."""
    asked = oip.SystemSharedMemoryRegisterRequest(name=region, key=key, byte_size=byte_size)
    path = "/inference.GRPCInferenceService/SystemSharedMemoryRegister"
    return Request(path, asked.SerializeToString(), lambda _: np.empty(0))


def rest_binary(network: Network, expected: Array) -> Request:
    """Infer of the Open Inference Protocol over HTTP with binary tensors."""
    given = _described(network) | {"parameters": {"binary_data_size": network.sample.nbytes}}
    wanted = {"name": network.output, "parameters": {"binary_data": True}}
    header = json.dumps({"inputs": [given], "outputs": [wanted]}).encode()
    return Request(
        _infer_path(network),
        header + network.sample.tobytes(),
        lambda answer: _array(answer[-expected.nbytes :], expected),
        {HEADER_LENGTH: str(len(header)), "Content-Type": "application/octet-stream"},
    )


def rest_json(network: Network, expected: Array) -> Request:
    """Infer of the Open Inference Protocol over HTTP with numbers in JSON."""
    given = _described(network) | {"data": network.sample.ravel().tolist()}

    def read(answer: bytes) -> Array:
        return np.array(json.loads(answer)["outputs"][0]["data"], np.float32).reshape(expected.shape)

    body = json.dumps({"inputs": [given]}).encode()
    return Request(_infer_path(network), body, read, {"Content-Type": "application/json"})


def raw_bytes(path: str, network: Network, expected: Array) -> Request:
    """A tensor's bytes and nothing else, for a server that knows what they are."""
    headers = {"Content-Type": "application/octet-stream"}
    return Request(path, network.sample.tobytes(), lambda answer: _array(answer, expected), headers)


def _message(network: Network) -> bytes:
    request = oip.ModelInferRequest(model_name=network.name, raw_input_contents=[network.sample.tobytes()])
    described = _described(network)
    request.inputs.add(name=described["name"], datatype=described["datatype"], shape=described["shape"])
    return request.SerializeToString()


def _described(network: Network) -> dict[str, object]:
    datatype = DATATYPES[network.sample.dtype.name]
    return {"name": network.input, "datatype": datatype, "shape": network.sample.shape}


def _infer_path(network: Network) -> str:
    return f"/v2/models/{network.name}/infer"


def _array(data: bytes, expected: Array) -> Array:
    return np.frombuffer(data, expected.dtype).reshape(expected.shape)
