"""A client's end of a session's stream, by either of the ways that carry one."""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from tests.waiting import LIMIT_S

from inferwire_proto import frames, raw_fields
from inferwire_proto.errors import CODE_METADATA, Code
from inferwire_proto.frames import Frame, FrameReader, Kind
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2


class Ended(NamedTuple):
    """Why a server ended a stream."""

    code: str
    sentence: str


def joined(message: pb.SessionRequest, raw: Sequence[bytes] = ()) -> bytes:
    """Write a message with its inputs' bytes."""
    return raw_fields.join(message.SerializeToString(), raw)


class Stream(ABC):
    """A stream, with the same messages whatever carries it."""

    async def open(self, session_id: str = "") -> pb.SessionWelcome:
        """Say hello."""
        await self.send(pb.SessionRequest(hello=self.hello(session_id)))
        return pb.SessionResponse.FromString(await self.message()).welcome

    async def send(self, message: pb.SessionRequest, raw: Sequence[bytes] = ()) -> None:
        """Send one message."""
        await self.send_bytes(joined(message, raw))

    async def results(self, number: int) -> dict[int, tuple[pb.ExecutionResult, list[bytes]]]:
        """Read so many results, by id."""
        found: dict[int, tuple[pb.ExecutionResult, list[bytes]]] = {}
        while len(found) < number:
            message = pb.SessionResponse.FromString(await self.message())
            raw = list(message.raw)
            for result in message.results:
                taken, raw = raw[: len(result.outputs)], raw[len(result.outputs) :]
                count = len(result.ids)
                sizes = [len(entry) // count for entry in taken]
                for at, execution_id in enumerate(result.ids):
                    pairs = zip(taken, sizes, strict=True)
                    found[execution_id] = (result, [entry[at * size : (at + 1) * size] for entry, size in pairs])
            assert raw == []
        return found

    @abstractmethod
    def hello(self, session_id: str = "") -> pb.SessionHello:
        """Make a hello that this way takes."""

    @abstractmethod
    async def send_bytes(self, data: bytes) -> None:
        """Send one message, whatever it is."""

    @abstractmethod
    async def message(self) -> bytes:
        """Read the next message; there has to be one."""

    @abstractmethod
    async def say_all(self) -> None:
        """Tell the server that no message follows."""

    @abstractmethod
    async def ended(self) -> Ended | None:
        """Read until the server ends the stream; None if it ends without an error."""

    @abstractmethod
    def leave(self) -> None:
        """Leave without telling the server."""


class GrpcStream(Stream):
    """A stream in a gRPC call."""

    def __init__(self, channel: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        self.call: Any = channel.stream_stream("/inferwire.v1.InferenceService/Session")(metadata=metadata)

    def hello(self, session_id: str = "") -> pb.SessionHello:
        """Make a hello, to whichever server it is."""
        return pb.SessionHello(client="test", session_id=session_id)

    async def send_bytes(self, data: bytes) -> None:
        """Send one message, whatever it is."""
        await self.call.write(data)

    async def message(self) -> bytes:
        """Read the next message; there has to be one."""
        data = await self.call.read()
        assert data is not grpc.aio.EOF, await self.call.details()
        return data

    async def say_all(self) -> None:
        """Close this side of the call."""
        await self.call.done_writing()

    async def ended(self) -> Ended | None:
        """Read the status of the call, which is that of its code."""
        async with asyncio.timeout(LIMIT_S):
            status = await self.call.code()
        if status is grpc.StatusCode.OK:
            assert await self.call.read() is grpc.aio.EOF
            return None
        code = dict(iter(await self.call.trailing_metadata())).get(CODE_METADATA, "")
        assert status is grpc.StatusCode[Code[code].grpc]
        return Ended(code, await self.call.details())

    def leave(self) -> None:
        """Cancel the call."""
        self.call.cancel()


class SocketStream(Stream):
    """A stream on a socket of its own, plain or with TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server_epoch: str) -> None:
        self.reader, self.writer = reader, writer
        self._server_epoch = server_epoch

    @staticmethod
    async def connect(
        port: int, server_epoch: str, *, preface: bytes = frames.PREFACE, tls: ssl.SSLContext | None = None
    ) -> SocketStream:
        """Connect to the gRPC port, and send the first bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        writer.write(preface)
        return SocketStream(reader, writer, server_epoch)

    @staticmethod
    async def connect_to_file(path: Path, server_epoch: str, *, preface: bytes = frames.PREFACE) -> SocketStream:
        """Connect to a Unix socket, and send the first bytes."""
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(preface)
        return SocketStream(reader, writer, server_epoch)

    def hello(self, session_id: str = "") -> pb.SessionHello:
        """Make a hello to this server."""
        return pb.SessionHello(client="test", session_id=session_id, server_epoch=self._server_epoch)

    async def send_bytes(self, data: bytes) -> None:
        """Send one message, whatever it is."""
        await self.send_frame(Kind.MESSAGE, data)

    async def send_frame(self, kind: Kind, content: bytes = b"") -> None:
        """Send a frame."""
        self.writer.write(frames.header(kind, len(content)) + content)
        await self.writer.drain()

    async def frame(self) -> Frame:
        """Read the next frame."""
        head = await self._exactly(8)
        cut = FrameReader(frames.scratch(), 1 << 30)
        cut.room()[:8] = head
        if complete := list(cut.received(8)):
            return complete[0]
        rest = cut.room()
        rest[:] = await self._exactly(len(rest))
        (complete,) = cut.received(len(rest))
        return complete

    async def _exactly(self, count: int) -> bytes:
        async with asyncio.timeout(LIMIT_S):
            return await self.reader.readexactly(count)

    async def message(self) -> bytes:
        """Read the next message; there has to be one."""
        kind, content = await self.frame()
        assert kind is Kind.MESSAGE, types_pb2.Error.FromString(bytes(content))
        return bytes(content)

    async def say_all(self) -> None:
        """Send the end."""
        await self.send_frame(Kind.END)

    async def ended(self) -> Ended | None:
        """Read up to the end, behind which nothing comes, and close. With TLS neither side is closed by itself."""
        kind, content = await self.frame()
        while kind is not Kind.END:
            kind, content = await self.frame()
        if self.writer.can_write_eof():
            assert await self.reader.read() == b""
        self.leave()
        if not content:
            return None
        error = types_pb2.Error.FromString(bytes(content))
        return Ended(types_pb2.ErrorCode.Name(error.code).removeprefix("ERROR_CODE_"), error.message)

    def leave(self) -> None:
        """Close the connection."""
        self.writer.close()
