"""Finds the method that a call is for, and knows the calls that run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from weakref import WeakSet

import grpc

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError, shutting_down
from inferwire_server.transport.connection_age import Age, Ages
from inferwire_server.transport.http2.connection import Connection
from inferwire_server.transport.http2.header_blocks import MOST_HEADER_BYTES, write_block
from inferwire_server.transport.http2.outflow import Write
from inferwire_server.transport.http2.protocol import Http2Protocol
from inferwire_server.transport.http2.stream import Receiver, Stream
from inferwire_server.transport.http2.streams import MOST_STREAMS
from inferwire_server.transport.rpc.call import CallSurroundings, RpcCall
from inferwire_server.transport.rpc.call_head import CallHead, read_head
from inferwire_server.transport.rpc.guard import Guard
from inferwire_server.transport.rpc.messages import MOST_BYTES
from inferwire_server.transport.rpc.methods import Method
from inferwire_server.transport.rpc.status import (
    ENCODINGS,
    NO_METHOD,
    NO_TENSORFLOW_SERVING,
    TENSORFLOW_SERVING,
    RpcStatus,
)
from inferwire_server.transport.rpc.unread import Refusal

_FURTHER_HEADER_BYTES = 4096
"""How many more bytes of headers a call may have that another process hands on: more than its caller may send."""

_NOT_GRPC = write_block([(b":status", b"415")])


class Dispatcher:
    """Begins calls as their headers come, and knows the running ones. Callers' connections have `ages`, if given."""

    def __init__(
        self, methods: Mapping[str, Method], guard: Guard, most_message_bytes: int, ages: Ages | None = None
    ) -> None:
        self._methods = methods
        self._guard = guard
        self._most_message_bytes = most_message_bytes
        self._ages = ages or Ages()
        self._connections: WeakSet[CallSurroundings] = WeakSet()

    def __repr__(self) -> str:
        return f"<Dispatcher: {len(self._methods)} methods, {len(self._calls)} calls>"

    def connect(self, write: Write, socket: Http2Protocol[CallHead]) -> Connection[CallHead]:
        """Begin a connection."""
        age = self._ages.begin(socket.began_at)
        around = CallSurroundings(self._guard, socket.peer, self._most_message_bytes, MOST_HEADER_BYTES, age)
        return self._connect(write, socket, around)

    def connect_worker(self, write: Write, socket: Http2Protocol[CallHead]) -> Connection[CallHead]:
        """Begin a connection on which another process of this server hands on the calls of many callers.

        That process has checked the size of its callers' headers, so there is room for those that it adds. It has also
        checked how long their messages are, because calls that came over HTTP have another limit. And those that fetch
        what is kept have had their turns there: here, a caller that takes nothing would keep the others waiting.
        """
        most_header_bytes = MOST_HEADER_BYTES + _FURTHER_HEADER_BYTES
        around = CallSurroundings(self._guard, socket.peer, MOST_BYTES, most_header_bytes, Age(), fetching=None)
        return self._connect(write, socket, around)

    def _connect(self, write: Write, socket: Http2Protocol[CallHead], around: CallSurroundings) -> Connection[CallHead]:
        self._connections.add(around)

        def begin(stream: Stream, head: CallHead) -> Receiver | None:
            return self._begin(stream, head, around)

        return Connection(write, read_head, begin, socket.close, around.most_header_bytes, around.age)

    def refuse_unbegun(self) -> None:
        """Refuse the calls whose message is not complete yet, as calls are that come once the server is closed."""
        for call in self._calls:
            if call.task is None:
                call.refuse(shutting_down())

    async def end(self) -> None:
        """Cancel every call, and wait until none runs."""
        calls = self._calls
        for call in calls:
            call.cancel()
        if tasks := [call.task for call in calls if call.task is not None]:
            await asyncio.wait(tasks)

    @property
    def _calls(self) -> tuple[RpcCall, ...]:
        return tuple(call for around in self._connections for call in around.calls)

    def _begin(self, stream: Stream, head: CallHead, around: CallSurroundings) -> Receiver | None:
        if len(around.calls) >= MOST_STREAMS:
            # Calls that the peer has given up count until their work has ended: else it could begin any number.
            stream.refuse()
            return None
        stream.announced = head.content_length
        if not head.is_grpc:
            stream.finish(_NOT_GRPC)
            return None
        if head.byte_size > around.most_header_bytes:
            return Refusal(stream, _long_headers(head.byte_size, around.most_header_bytes))
        method = self._methods.get(head.path)
        if method is None:
            is_of_tensorflow = head.path.startswith(TENSORFLOW_SERVING)
            return Refusal(stream, NO_TENSORFLOW_SERVING if is_of_tensorflow else NO_METHOD)
        if head.encoding not in ENCODINGS:
            return Refusal(stream, _unknown_encoding(head.encoding))
        if head.unknown_timeout is not None:
            return Refusal(stream, _unknown_timeout(head.unknown_timeout))
        is_unread = False
        try:
            self._guard.check_key(head.metadata)
        except ServingError as refusal:
            # No message is taken in from a caller without a key: a few of them could take all memory.
            if not method.is_keyless:
                return Refusal(stream, self._guard.refuse(refusal, head, around.peer))
            is_unread = not method.takes_stream
        if self._guard.drain.is_closed:
            return Refusal(stream, self._guard.refuse(shutting_down(), head, around.peer))
        if method.keeps_connection:
            around.age.stop()
        call = RpcCall(stream, head, method, around)
        return call.unread() if is_unread else call


def _long_headers(byte_size: int, most: int) -> RpcStatus:
    sentence = (
        f"the call's headers have {byte_size} bytes, 32 of each beside its name and value, expected at most {most}"
    )
    return RpcStatus(grpc.StatusCode.RESOURCE_EXHAUSTED, sentence)


def _unknown_encoding(encoding: str) -> RpcStatus:
    sentence = f"the call's grpc-encoding is '{encoding}', expected one of {', '.join(ENCODINGS)}"
    return RpcStatus(grpc.StatusCode.UNIMPLEMENTED, sentence)


def _unknown_timeout(said: bytes) -> RpcStatus:
    expected = "expected a number of up to eight digits and its unit, H, M, S, m, u or n"
    return RpcStatus.of(
        ServingError(Code.INVALID_INPUT, f"the call's grpc-timeout is '{said.decode('latin-1')}', {expected}")
    )
