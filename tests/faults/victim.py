"""A client that a test kills: it does one thing until then. `python victim.py WHAT GRPC_PORT HTTP_PORT`."""

from __future__ import annotations

import http.client
import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from inferwire_proto.inferwire.v1 import inference_pb2, models_pb2, types_pb2
from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip

V1 = "/inferwire.v1"
FOREVER = threading.Event()
"""An event that is never set."""


def then_wait(*messages: Any) -> Iterator[bytes]:
    """Send messages and leave the stream open."""
    yield from (message.SerializeToString() for message in messages)
    FOREVER.wait()


def work(*ids: int) -> dict[str, Any]:
    header = types_pb2.TensorHeader(name="x", element_type=types_pb2.ELEMENT_TYPE_F32, shape=[1, 4])
    execution = inference_pb2.Execution(ids=ids, target=inference_pb2.Target(served="echo"), inputs=[header])
    return {"executions" if ids else "execution": [execution] if ids else execution, "raw": [bytes(16)]}


def session(channel: grpc.Channel, *messages: Any) -> Any:
    hello = inference_pb2.SessionHello(client="victim")
    return channel.stream_stream(f"{V1}.InferenceService/Session")(
        then_wait(inference_pb2.SessionRequest(hello=hello), *messages)
    )


def v1_session(channel: grpc.Channel, http_port: int) -> None:
    executions = [inference_pb2.SessionRequest(**work(number)) for number in (1, 2, 3)]
    list(session(channel, *executions))


def v1_infer(channel: grpc.Channel, http_port: int) -> None:
    request = inference_pb2.InferRequest(**work())
    calls = [channel.unary_unary(f"{V1}.InferenceService/Infer").future(request.SerializeToString()) for _ in "abc"]
    calls[0].result()


def oip_request() -> oip.ModelInferRequest:
    message = oip.ModelInferRequest(model_name="echo", raw_input_contents=[bytes(16)])
    message.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    return message


def oip_infer(channel: grpc.Channel, http_port: int) -> None:
    method = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    calls = [method.future(oip_request().SerializeToString()) for _ in "abc"]
    calls[0].result()


def oip_stream(channel: grpc.Channel, http_port: int) -> None:
    method = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
    list(method(then_wait(*(oip_request() for _ in "abc"))))


def rest_infer(channel: grpc.Channel, http_port: int) -> None:
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [0, 1, 2, 3]}]})
    connections = [http.client.HTTPConnection("127.0.0.1", http_port) for _ in "abc"]
    for connection in connections:
        connection.request("POST", "/v2/models/echo/infer", body)
    connections[0].getresponse()


def v1_wait(channel: grpc.Channel, http_port: int) -> None:
    """Wait for jobs of its own, which outlive their caller."""
    request = inference_pb2.StartAsyncRequest(**work())
    start = channel.unary_unary(f"{V1}.InferenceService/StartAsync")
    answers = [start(request.SerializeToString()) for _ in "abc"]
    job_id = inference_pb2.StartAsyncResponse.FromString(answers[-1]).job_id
    wait = inference_pb2.WaitRequest(job_id=job_id, timeout_us=60_000_000)
    channel.unary_unary(f"{V1}.InferenceService/Wait")(wait.SerializeToString())


def upload(channel: grpc.Channel, http_port: int) -> None:
    stream = session(channel)
    session_id = inference_pb2.SessionResponse.FromString(next(stream)).welcome.session_id
    header = models_pb2.BlobHeader(sha256=bytes(32), byte_size=1 << 20)
    messages = then_wait(models_pb2.UploadRequest(header=header, chunk=bytes(1 << 16)))
    method = channel.stream_unary(f"{V1}.ModelService/Upload")
    method(messages, metadata=(("inferwire-session", session_id),))


DEEDS: dict[str, Callable[[grpc.Channel, int], None]] = {
    deed.__name__: deed for deed in (v1_session, v1_infer, oip_infer, oip_stream, rest_infer, v1_wait, upload)
}

if __name__ == "__main__":
    what, grpc_port, port = sys.argv[1:]
    DEEDS[what](grpc.insecure_channel(f"127.0.0.1:{grpc_port}"), int(port))
