"""A server of the session's messages that answers as a test tells it to, on real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, Self

import grpc
import numpy as np
from tests.client.transport.endings import Ended, Endings
from tests.client.transport.shared_port import shared_port
from tests.waiting import LIMIT_S

from inferwire.transport.executions import Deliver, ExecutionHeader, Outcome, OutputBytes, Target, TensorSpec
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire_proto import frames
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.frames import FrameReader, Kind
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2

F32 = BY_NAME["f32"]
HEADER = ExecutionHeader(Target("m", is_served=True, signature=7), (TensorSpec(0, F32, (2,)),))
DATA = np.array([1, 2], np.float32).tobytes()


class ScriptedServer(grpc.GenericRpcHandler):
    """Keeps every message of a stream and answers as told by the test: on the gRPC stream, or on a socket beside it.

    If a `stranger` answers at sockets, the session stays on gRPC.

    Attributes:
        hellos: The hellos of clients, without the second one that a client sends on the socket.
        ended: The sessions whose streams their clients have ended.
        left: The gRPC streams that clients left for a socket.
        takes_sockets: What the welcome offers.
        calls: The name of each call's method, and its metadata.
    """

    def __init__(
        self,
        *,
        on_socket: bool = False,
        stranger: Callable[[socket.socket], object] | None = None,
        certificate: grpc.ServerCredentials | None = None,
    ) -> None:
        self.calls: SimpleQueue[tuple[str, dict[str, str]]] = SimpleQueue()
        self.received: SimpleQueue[pb.SessionRequest] = SimpleQueue()
        self.hellos: list[pb.SessionHello] = []
        self.answers: SimpleQueue[pb.SessionResponse | None] = SimpleQueue()
        self.ended: SimpleQueue[str] = SimpleQueue()
        self.left: SimpleQueue[str] = SimpleQueue()
        self.unary: dict[str, Callable[[bytes, grpc.ServicerContext], bytes]] = {}
        self.streamed: dict[str, Callable[[bytes, grpc.ServicerContext], Iterator[bytes]]] = {}
        self.most_bytes = 0
        self.takes_sockets = on_socket or stranger is not None
        self._leaves_grpc = on_socket
        self.server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", -1)])
        self.server.add_generic_rpc_handlers((self,))
        self.port = (
            self.server.add_insecure_port("127.0.0.1:0")
            if certificate is None
            else self.server.add_secure_port("127.0.0.1:0", certificate)
        )
        self._shared = shared_port(self.port, stranger or self._on_socket) if self.takes_sockets else None
        if self._shared is not None:
            self.port = self._shared.port
        self.server.start()

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method.rpartition("/")[2]
        self.calls.put((method, dict(handler_call_details.invocation_metadata)))
        if method == "Session":
            return grpc.stream_stream_rpc_method_handler(self._session)
        if method == "Upload":
            return grpc.stream_unary_rpc_method_handler(self._upload)
        if method in self.streamed:
            return grpc.unary_stream_rpc_method_handler(self.streamed[method])
        return grpc.unary_unary_rpc_method_handler(self.unary[method]) if method in self.unary else None

    def _session(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        self.hellos.append(pb.SessionRequest.FromString(next(requests)).hello)
        yield self._welcome(f"session-{len(self.hellos)}")
        if self._leaves_grpc:
            # The client has to end this stream when it has the other one.
            for _ in requests:
                raise AssertionError("what is sent on the gRPC stream is to be sent on the socket")
            self.left.put(f"session-{len(self.hellos)}")
            return
        reader = threading.Thread(target=self._read, args=(requests,), daemon=True)
        reader.start()
        while (answer := self.answers.get()) is not None:
            yield answer.SerializeToString()

    def _read(self, requests: Iterator[bytes]) -> None:
        try:
            for data in requests:
                self.received.put(pb.SessionRequest.FromString(data))
            self.ended.put(f"session-{len(self.hellos)}")
        except (grpc.RpcError, OSError):
            pass

    def _welcome(self, session_id: str) -> bytes:
        welcome = pb.SessionWelcome(
            session_id=session_id,
            max_message_bytes=self.most_bytes,
            server_epoch="now",
            takes_sockets=self.takes_sockets,
        )
        return pb.SessionResponse(welcome=welcome).SerializeToString()

    def _on_socket(self, connection: socket.socket) -> None:
        preface = connection.recv(len(frames.PREFACE), socket.MSG_WAITALL)
        if preface != frames.PREFACE:
            # The client has gone already.
            return
        messages = messages_on(connection)
        hello = pb.SessionRequest.FromString(next(messages)).hello
        assert hello.server_epoch == "now"
        connection.sendall(frames.frame(Kind.MESSAGE, self._welcome(hello.session_id)))
        threading.Thread(target=self._read, args=(messages,), daemon=True).start()
        while (answer := self.answers.get()) is not None:
            connection.sendall(frames.frame(Kind.MESSAGE, answer.SerializeToString()))
        connection.sendall(frames.frame(Kind.END))

    def _upload(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        return self.unary["Upload"](b"".join(requests), context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for _ in self.hellos:
            self.answers.put(None)
        if self._shared is not None:
            self._shared.close()
        self.server.stop(0).wait(LIMIT_S)


def messages_on(connection: socket.socket) -> Iterator[bytes]:
    """Give the messages that a client sends on a socket until it ends the stream."""
    reader = FrameReader(frames.scratch(), 1 << 30)
    while count := connection.recv_into(reader.room()):
        for kind, content in reader.received(count):
            if kind is Kind.END:
                return
            assert kind is Kind.MESSAGE
            yield bytes(content)
    raise ConnectionResetError


def methods_of(server: ScriptedServer) -> list[str]:
    """List the calls that have come."""
    methods: list[str] = []
    while not server.calls.empty():
        methods.append(server.calls.get_nowait()[0])
    return methods


def result(*ids: int, raw: bytes = DATA) -> pb.SessionResponse:
    header = types_pb2.TensorHeader(element_type=types_pb2.ELEMENT_TYPE_F32, shape=[2])
    timings = types_pb2.Timings(queue_us=1000, inference_us=2000, total_us=3000)
    answered = pb.ExecutionResult(ids=ids, outputs=[header], timings=timings)
    return pb.SessionResponse(results=[answered], raw=[raw])


def values_of(outcome: Ended) -> list[float]:
    return np.frombuffer(bytes(outcome.data[0] or b""), np.float32).tolist()


def submit(transport: GrpcTransport, outcomes: Endings) -> Any:
    return transport.submit(HEADER, [DATA], outcomes.take)


def check_answered(server: ScriptedServer, transport: GrpcTransport) -> None:
    """Send an execution over gRPC, and get its answer."""
    outcomes = Endings()
    submit(transport, outcomes)
    server.answers.put(result(*sent(server)))
    assert content(outcomes.get(timeout=LIMIT_S)) == DATA


def content(outcome: Ended) -> bytes:
    data = outcome.data[0]
    assert data is not None
    return bytes(data)


def sent(server: ScriptedServer, count: int = 1) -> list[int]:
    """Wait until the server has got executions, and give their ids."""
    ids: list[int] = []
    while len(ids) < count:
        ids += [id_ for execution in server.received.get(timeout=LIMIT_S).executions for id_ in execution.ids]
    return ids


def delivering_badly(outcomes: Endings) -> Deliver:
    """Deliver only errors: an answer raises as if memory were short."""

    def deliver(outcome: Outcome, data: OutputBytes) -> None:
        if outcome.error is None:
            raise MemoryError("no room for it")
        outcomes.take(outcome, data)

    return deliver
