"""Receivers of calls of which nothing is read: those that are refused, and those that need no message."""

from __future__ import annotations

import asyncio

from inferwire_server.transport.http2.stream import Receiver, Stream
from inferwire_server.transport.rpc.status import ANSWER_HEADERS, RpcStatus

_FIRST_DATA_S = 0.1
"""How long a caller that has sent nothing but headers may take to begin, before it hears that its call has failed."""


class Unread:
    """Takes what comes for a call that reads nothing, and the caller's end for it."""

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
    """Tells a caller that its call has failed, once it has begun to send, or has not for a moment.

    It does not if the stream ends before, whoever ends it. Some clients send the headers of a stream and its first
    message apart. They report that they cannot send the second, and not why, if they hear of the refusal in between.
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
        """Tell nobody."""
        self._limit.cancel()

    def take_room(self) -> None:
        """Do nothing: it waits for none."""

    def take_stall(self) -> None:
        """Do nothing: it tells soon."""

    def _tell(self) -> None:
        self._stream.finish(ANSWER_HEADERS + self._status.block())
