"""The readers of bytes from the network, as functions that take any: each returns, or refuses in a sentence.

Any other error is a bug. Beside each reader are examples to begin from.
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
from inferwire_server.open_inference.config_file import read_config_file
from inferwire_server.open_inference.stubs import grpc_service_pb2
from inferwire_server.service.values import Inference, ServedModel
from inferwire_server.transport.http.bodies import decompress
from inferwire_server.transport.http2 import frames as http2
from inferwire_server.transport.http2.connection import Connection
from inferwire_server.transport.http2.frames import ConnectionFailed
from inferwire_server.transport.http2.header_blocks import write_block
from inferwire_server.transport.http2.stream import Stream
from inferwire_server.transport.oip.override import read_override
from inferwire_server.transport.rest import json_elements, oip_request
from inferwire_server.transport.rest.binary_extension import Tail, header_length, raw_input
from inferwire_server.transport.rpc import oip_codec, oip_plans
from inferwire_server.transport.rpc.call_head import CallHead, read_head
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
        """Give it bytes; raise its errors, except refusals."""
        with suppress(ServingError, raw_fields.MalformedMessage, frames.MalformedFrame, ConnectionFailed):
            self.read(data)


def _bind(inference: Inference) -> None:
    SPEC.arrange(inference.inputs)  # pyright: ignore[reportArgumentType] - none of them is kept on the server


def over_grpc(data: bytes) -> None:
    _, head, raw = oip_codec.split_request(data)
    _bind(oip_plans.plan_of(head, len(raw)).inference(raw))


def over_rest(data: bytes) -> None:
    length = int.from_bytes(data[:2], "little") % (len(data) + 1)
    body = memoryview(data)[2:]
    _bind(oip_request.parse(body[:length], MODEL).inference(Tail(body[length:])))


def raw_body(data: bytes) -> None:
    name, tensor = raw_input(ALONE, data)
    ALONE.arrange([(name, tensor)])


def length_header(data: bytes) -> None:
    header_length(data.decode("latin-1"), LIMIT)


def compressed(data: bytes) -> None:
    encoding = "gzip" if data[:1] < b"\x80" else "deflate"
    assert len(decompress(data[1:], encoding, LIMIT)) <= LIMIT


def configuration(data: bytes) -> None:
    read_override(data.decode("utf-8", "surrogateescape"), "m", None)


def config_file(data: bytes) -> None:
    read_config_file(data.decode("utf-8", "replace"), "m", "m/config.pbtxt")


def execution(data: bytes) -> None:
    message, raw = raw_fields.split(inference_pb2.SessionRequest, data)
    for each in message.executions:
        with suppress(ServingError):
            plans.decode_execution(each, raw, None)


def framed(data: bytes) -> None:
    """Receive bytes as a socket would, in pieces whose length the first byte gives."""
    reader = FrameReader(frames.scratch(), 1 << 20)
    piece, data = data[0] + 1 if data else 1, data[1:]
    for at in range(0, len(data), piece):
        part = data[at : at + piece]
        room = reader.room()[: len(part)]
        room[:] = part[: len(room)]
        for kind, content in reader.received(len(room)):
            if kind is Kind.MESSAGE:
                execution(bytes(content))


class Echo:
    """A call of HTTP/2 that gives its peer all the room it can, and answers with as much as it has received."""

    awaits_data = True

    def __init__(self, stream: Stream, head: CallHead) -> None:
        self._stream = stream
        self._taken = 0

    def take_data(self, data: memoryview, *, is_last: bool) -> None:
        self._taken += len(data)
        self._stream.expect(1 << 20)
        if is_last:
            self._stream.answer(b"\x88", (bytes(self._taken),), self._taken, b"\x88")

    def take_end(self) -> None:
        assert self._stream.is_over

    def take_room(self) -> None:
        assert not self._stream.unsent

    def take_stall(self) -> None:
        raise AssertionError


def http2_frames(data: bytes) -> None:
    """Receive bytes behind a client's preface as a socket would, in pieces whose length the first byte gives."""
    connection: Connection[CallHead] = Connection(lambda pieces: None, read_head, Echo, lambda: None)
    connection.receive(http2.PREFACE + http2.settings({}))
    piece, data = data[0] + 1 if data else 1, data[1:]
    try:
        for at in range(0, len(data), piece):
            connection.receive(data[at : at + piece])
            while connection.has_more:
                connection.receive(b"")
    finally:
        connection.lose()


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


def _http2_frames(size: int) -> bytes:
    """Write a call whose headers come in two frames and are remembered, and another that is reset."""
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a/b"), (b"content-type", b"application/grpc")]
    block = write_block([*fields, (b"grpc-timeout", b"1S"), (b"a-bin", b"YWI")]) + b"\x40\x01a\x01b"
    said = [
        http2.frame(http2.HEADERS, http2.HAS_PRIORITY, 1, bytes(5) + block[:9]),
        http2.frame(http2.CONTINUATION, http2.END_HEADERS, 1, block[9:]),
        http2.frame(http2.HEADERS, http2.END_HEADERS | http2.PADDED, 3, b"\1" + block + b"\0"),
        http2.settings({http2.INITIAL_WINDOW_SIZE: 5, http2.HEADER_TABLE_SIZE: 0}),
        http2.frame(http2.DATA, http2.PADDED, 1, b"\1abcdefg\0"),
        http2.frame(http2.DATA, 0, 3, bytes(10)),
        http2.frame(http2.DATA, http2.END_STREAM, 1, b"h"),
        http2.frame(http2.PING, content=bytes(8)),
        http2.window_update(1, 2),
        http2.rst_stream(3, http2.ErrorCode.CANCEL),
        http2.window_update(0, 100),
    ]
    return bytes((size,)) + b"".join(said)


_CONFIGURATION = {"max_batch_size": "8", "instance_group": [{"count": 2}], "input": [{"name": "x", "dims": [-1]}]}
_CONFIG_FILE = b"""
max_batch_size: 8
input [{ name: "x" data_type: TYPE_FP32 dims: [ -1, 4 ] }]  # one row
parameters { key: "NUM_STREAMS" value { string_value: "2" } }
"""

TARGETS = {
    "over_grpc": Target(over_grpc, (_oip_request(), _typed_request())),
    "over_rest": Target(over_rest, (_document(binary=True), _document(binary=False))),
    "raw_body": Target(raw_body, (bytes(16),)),
    "length_header": Target(length_header, (b"12", b"0")),
    "compressed": Target(compressed, (b"\x00\x1f\x8b\x08\x00", b"\xff\x78\x9c")),
    "configuration": Target(configuration, (json.dumps(_CONFIGURATION).encode(),)),
    "config_file": Target(config_file, (_CONFIG_FILE,)),
    "execution": Target(execution, (_session_request(),)),
    "framed": Target(framed, (b"\x10" + frames.frame(Kind.MESSAGE, _session_request()) + frames.frame(Kind.PING),)),
    "http2_frames": Target(http2_frames, (_http2_frames(255), _http2_frames(0))),
    "answer": Target(answer, (b"\x00abcd", b"\x0aabcdefgh")),
    "packed_strings": Target(packed_strings, (b"\1" + strings.pack([b"a"]),)),
}
