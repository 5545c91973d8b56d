"""What reads bytes from the network, as functions that take any: each returns, or refuses in a sentence.

Whatever else is raised is a bug. Beside each stand examples to begin from.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from inferwire_proto import frames, raw_fields, strings
from inferwire_proto.element_types import BY_NAME, ELEMENT_TYPES
from inferwire_proto.frames import FrameReader, Kind
from inferwire_proto.inferwire.v1 import inference_pb2
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.service.values import Inference, ServedModel
from inferwire_server.transport.http.bodies import decompress
from inferwire_server.transport.oip.override import read_override
from inferwire_server.transport.oip.stubs import grpc_service_pb2
from inferwire_server.transport.rest import json_elements, oip_request
from inferwire_server.transport.rest.binary_extension import Tail, header_length, raw_input
from inferwire_server.transport.rpc import oip_codec, oip_plans
from inferwire_server.transport.v1 import plans

LIMIT = 1 << 20
MODEL = ServedModel("m")


def port(name: str, type_name: str, *lengths: int | None) -> PortSpec:
    shape = tuple(Dimension(length or 0, length) for length in lengths)
    return PortSpec(frozenset({name}), name, BY_NAME[type_name], shape, name, "Parameter")


SPEC = ModelSpec("m", (port("x", "f32", None, 2), port("s", "string", None), port("b", "boolean", None)), ())
ALONE = ModelSpec("m", (port("x", "f32", None, 2),), ())


@dataclass(frozen=True)
class Target:
    """One reader of bytes."""

    read: Callable[[bytes], object]
    examples: tuple[bytes, ...]

    def __call__(self, data: bytes) -> None:
        """Give it bytes; what it raises that is no refusal comes out."""
        with suppress(ServingError, raw_fields.MalformedMessage, frames.MalformedFrame):
            self.read(data)


def _bind(inference: Inference) -> None:
    SPEC.bind(inference.inputs)  # pyright: ignore[reportArgumentType] - none of them is kept on the server


def over_grpc(data: bytes) -> None:
    _, head, raw = oip_codec.split_request(data)
    _bind(oip_plans.plan_of(head, len(raw)).inference(raw))


def over_rest(data: bytes) -> None:
    length = int.from_bytes(data[:2], "little") % (len(data) + 1)
    body = memoryview(data)[2:]
    _bind(oip_request.parse(body[:length], MODEL).request(Tail(body[length:])).inference())


def raw_body(data: bytes) -> None:
    name, tensor = raw_input(ALONE, data)
    ALONE.bind([(name, tensor)])


def length_header(data: bytes) -> None:
    header_length(data.decode("latin-1"), LIMIT)


def compressed(data: bytes) -> None:
    encoding = "gzip" if data[:1] < b"\x80" else "deflate"
    assert len(decompress(data[1:], encoding, LIMIT)) <= LIMIT


def configuration(data: bytes) -> None:
    read_override(data.decode("utf-8", "surrogateescape"), "m", None).settings()


def execution(data: bytes) -> None:
    message, raw = raw_fields.split(inference_pb2.SessionRequest, data)
    for each in message.executions:
        with suppress(ServingError):
            plans.decode_execution(each, raw, None)


def framed(data: bytes) -> None:
    """Receive bytes as a socket would, in pieces as long as the first of them says."""
    reader = FrameReader(frames.scratch(), 1 << 20)
    piece, data = data[0] + 1 if data else 1, data[1:]
    for at in range(0, len(data), piece):
        part = data[at : at + piece]
        room = reader.room()[: len(part)]
        room[:] = part[: len(room)]
        for kind, content in reader.received(len(room)):
            if kind is Kind.MESSAGE:
                execution(bytes(content))


def answer(data: bytes) -> None:
    """Write bytes, whatever they are, as the JSON of an output."""
    element_type = ELEMENT_TYPES[data[0] % len(ELEMENT_TYPES)] if data else ELEMENT_TYPES[0]
    if element_type.oip is None:
        return
    body = data[1:]
    if element_type.is_string:
        body = strings.pack([body])
        tensor = Tensor(element_type, (1,), body)
    else:
        count = len(body) // element_type.byte_size((1,))
        tensor = Tensor(element_type, (count,), body[: element_type.byte_size((count,))])
    json_elements.unpack(tensor, "output 'y'")


def packed_strings(data: bytes) -> None:
    with suppress(ValueError):
        strings.unpack(data[1:], data[0] if data else 0)


def _oip_request() -> bytes:
    raw = [bytes(16), strings.pack([b"a"]), b"\1"]
    request = grpc_service_pb2.ModelInferRequest(model_name="m", id="1", raw_input_contents=raw)
    for name, datatype, shape in (("x", "FP32", [2, 2]), ("s", "BYTES", [1]), ("b", "BOOL", [1])):
        request.inputs.add(name=name, datatype=datatype, shape=shape)
    request.parameters["priority"].int64_param = 1
    request.outputs.add(name="y").parameters["binary_data"].bool_param = True
    return request.SerializeToString()


def _typed_request() -> bytes:
    request = grpc_service_pb2.ModelInferRequest(model_name="m")
    request.inputs.add(name="x", datatype="FP32", shape=[1, 2]).contents.fp32_contents.extend([0.5, 1.5])
    request.inputs.add(name="s", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"a")
    request.inputs.add(name="b", datatype="BOOL", shape=[1]).contents.bool_contents.append(True)
    return request.SerializeToString()


def _document(*, binary: bool) -> bytes:
    x: dict[str, object] = {"name": "x", "datatype": "FP32", "shape": [1, 2]}
    x |= {"parameters": {"binary_data_size": 8}} if binary else {"data": [[0.5, 1]]}
    s = {"name": "s", "datatype": "BYTES", "shape": [1], "data": ["a"]}
    b = {"name": "b", "datatype": "BOOL", "shape": [1], "data": [True]}
    document = json.dumps({"id": "1", "inputs": [x, s, b], "parameters": {"priority": 1}}).encode()
    return len(document).to_bytes(2, "little") + document + (bytes(8) if binary else b"")


def _session_request() -> bytes:
    request = inference_pb2.SessionRequest()
    one = request.executions.add(ids=[1], outputs=[0])
    one.target.served = "m"
    one.inputs.add(name="x", shape=[1, 2], element_type=BY_NAME["f32"].wire)  # pyright: ignore[reportArgumentType]
    return raw_fields.join(request.SerializeToString(), [bytes(8)])


_CONFIGURATION = {"max_batch_size": "8", "instance_group": [{"count": 2}], "input": [{"name": "x", "dims": [-1]}]}

TARGETS = {
    "over_grpc": Target(over_grpc, (_oip_request(), _typed_request())),
    "over_rest": Target(over_rest, (_document(binary=True), _document(binary=False))),
    "raw_body": Target(raw_body, (bytes(16),)),
    "length_header": Target(length_header, (b"12", b"0")),
    "compressed": Target(compressed, (b"\x00\x1f\x8b\x08\x00", b"\xff\x78\x9c")),
    "configuration": Target(configuration, (json.dumps(_CONFIGURATION).encode(),)),
    "execution": Target(execution, (_session_request(),)),
    "framed": Target(framed, (b"\x10" + frames.frame(Kind.MESSAGE, _session_request()) + frames.frame(Kind.PING),)),
    "answer": Target(answer, (b"\x00abcd", b"\x0aabcdefgh")),
    "packed_strings": Target(packed_strings, (b"\1" + strings.pack([b"a"]),)),
}
