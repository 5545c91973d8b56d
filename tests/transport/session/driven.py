"""A session on a socket; the test controls its transport, its clock and the ends of its executions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import numpy as np
from tests.transport.session.carriers import joined

from inferwire_proto import frames
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.frames import Kind
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.tensors import Tensor
from inferwire_server.service import Services
from inferwire_server.transport.session.socket_session import SocketSession
from inferwire_server.transport.session.socket_sessions import SocketSessions

MOST_BYTES = 1 << 20
"""The largest message that sessions of these tests take."""


def execution(execution_id: int, model: str = "echo", rows: int = 1) -> pb.Execution:
    header = types_pb2.TensorHeader(name="x", element_type=types_pb2.ELEMENT_TYPE_F32, shape=(rows, 4))
    return pb.Execution(ids=[execution_id], target=pb.Target(served=model), inputs=[header])


def row(value: float, rows: int = 1) -> bytes:
    return np.full((rows, 4), value, np.float32).tobytes()


class Recorded(asyncio.Transport):
    """Records the calls that the session makes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []
        self.unsent = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.calls.append(bytes(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.calls.append(list(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.calls.append("eof")

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.calls.append(protocol)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert (high, low) == (0, None)

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        self.calls.append("abort")

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def kinds(self) -> list[Any]:
        """List the kinds of the frames that were written, and the other calls."""
        found: list[Any] = []
        for call in self.calls:
            first = call[0] if isinstance(call, list) else call
            if isinstance(first, bytes):
                kind = Kind(int.from_bytes(first[:4], "little")).name
                found.append([kind] if isinstance(call, list) else kind)
            else:
                found.append(call)
        self.calls.clear()
        return found


def _ignore(_job: Job, _number: int) -> None:
    """Count nothing, since there is no model to count an answer for."""


class Driven:
    """A connection whose transport, and whose executions' ends, the test controls."""

    def __init__(self, sockets: SocketSessions, services: Services) -> None:
        self.transport = Recorded()
        hello = pb.SessionHello(client="test", server_epoch=services.health.identity.epoch)
        message = joined(pb.SessionRequest(hello=hello))
        sockets.take_over(self.transport, frames.header(Kind.MESSAGE, len(message)) + message)
        assert self.transport.calls[0] == "pause"
        self.session: SocketSession = self.transport.calls[1]
        assert self.transport.calls[2] == "resume"
        assert len(self.transport.calls) == 4
        self.transport.calls.clear()
        self.outbox = self.session._stream.outbox
        self.outbox._on_answer = _ignore

    def receive(self, *kinds: Kind) -> None:
        """Receive empty frames."""
        self.receive_bytes(b"".join(frames.frame(kind) for kind in kinds))

    def receive_bytes(self, data: bytes) -> None:
        """Receive bytes, valid or not."""
        self.session.get_buffer(-1)[: len(data)] = data
        self.session.buffer_updated(len(data))

    def end(self, execution_id: int, byte_size: int = 4) -> None:
        """End an execution that took its time."""
        job = Job("m", Work((), (0,)), submitted_at=0.0)
        job.start(0.0)
        job.finish((Tensor(BY_NAME["u8"], (byte_size,), bytes(byte_size)),), 1.0)
        self.outbox.admit((execution_id,), job)
        self.outbox.put((execution_id,), job)
