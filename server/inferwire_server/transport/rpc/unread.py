"""Receivers for calls of which nothing is read: those that are refused, and those that need no message."""

from __future__ import annotations

import asyncio

from inferwire_server.transport.http2.stream import Receiver, Stream
from inferwire_server.transport.rpc.status import ANSWER_HEADERS, RpcStatus

_FIRST_DATA_S = 0.1
"""How long a refused caller that has sent nothing but headers may take to send more, before it is told."""


class Unread:
    """Receives for a call that reads nothing: ignores data, and hands all other events on to the call."""

    __slots__ = ("_call",)

    awaits_data = False

    def __init__(self, call: Receiver) -> None:
        self._call = call

    def take_data(self, data: memoryview, *, is_last: bool) -> None:
        """Take nothing in."""

    def take_end(self) -> None:
        """Cancel the call."""
        self._call.take_end()

    def take_room(self) -> None:
        """Write on."""
        self._call.take_room()

    def take_stall(self) -> None:
        """End the call."""
        self._call.take_stall()


class Refusal:
    """Tells a caller that its call has failed, once the caller has begun to send, or after a moment.

    If the stream ends before that, it tells nothing. The wait is for clients that send a stream's headers and its first
    message apart: if they hear of the refusal in between, they report that they cannot send the message, and not why.
    """

    __slots__ = ("_limit", "_status", "_stream")

    awaits_data = False

    def __init__(self, stream: Stream, status: RpcStatus) -> None:
        self._stream = stream
        self._status = status
        self._limit = asyncio.get_running_loop().call_later(_FIRST_DATA_S, self._tell)

    def take_data(self, data: memoryview, *, is_last: bool) -> None:
        """Take nothing in, and tell."""
        del data, is_last
        self._limit.cancel()
        self._tell()

    def take_end(self) -> None:
        """Tell nothing: the stream has ended."""
        self._limit.cancel()

    def take_room(self) -> None:
        """Do nothing: this does not wait for room."""

    def take_stall(self) -> None:
        """Do nothing: the caller is told soon."""

    def _tell(self) -> None:
        self._stream.finish(ANSWER_HEADERS + self._status.block())
