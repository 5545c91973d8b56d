"""A call's messages on their way in: which wait to be read, what has come of the next, and how much more may come."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

import grpc

from inferwire_server.errors import ServingError
from inferwire_server.transport.http2.stream import STREAM_WINDOW, Stream
from inferwire_server.transport.rpc.messages import PREFIX_BYTES, MessageReader, Packed, unpacked
from inferwire_server.transport.rpc.status import RpcStatus

MOST_UNREAD_BYTES = 4 * STREAM_WINDOW
"""How many bytes a caller of many messages may send that its call has not read. That is enough for all that is on its
way through a long and wide network: 320 Mbit/s over 100 ms."""

_LISTED_BYTES = 64
"""What a message that waits takes besides its bytes."""

_MOST_READY = 256
"""How many messages may be ready before other calls have a turn: a received megabyte may have 200,000 of them."""


UNTAKEN = (ServingError, RpcStatus, MemoryError)
"""What is raised where a message cannot be taken. It is its call's end, and no other's on the connection."""


class Inbox:
    """What is received on a stream: many messages, which are read one by one, or one, with which the call begins."""

    __slots__ = (
        "_coming",
        "_encoding",
        "_failure",
        "_has_all",
        "_messages",
        "_most_bytes",
        "_most_ready",
        "_reader",
        "_reading",
        "_stream",
        "_takes_many",
        "_unread_bytes",
    )

    def __init__(self, stream: Stream, encoding: str, most_bytes: int, *, takes_many: bool) -> None:
        self._stream = stream
        self._encoding = encoding
        self._most_bytes = most_bytes
        self._takes_many = takes_many
        # Where there should be one message, a second shows that there are more.
        self._most_ready = _MOST_READY if takes_many else 2
        self._reader = MessageReader(encoding, most_bytes)
        self._coming: deque[Iterator[bytes]] = deque()
        self._messages: deque[bytes] = deque()
        self._unread_bytes = 0
        self._has_all = False
        self._reading: asyncio.Future[None] | None = None
        self._failure: Exception | None = None

    def __repr__(self) -> str:
        return f"<Inbox: {len(self._messages)} messages wait, {self._reader.missing} bytes of another are missing>"

    @property
    def awaits_data(self) -> bool:
        """Whether the caller is in the middle of a message, and may send on: not while too much of it is unread."""
        return self._failure is None and not self._reader.is_between and self._unread_bytes <= MOST_UNREAD_BYTES

    def take(self, data: memoryview, *, is_last: bool) -> None:
        """Take data, and wake the task that reads; take nothing after a failure.

        Raises:
            ServingError: TOO_LARGE.
            RpcStatus: The data is no message, or one more than there should be.
            MemoryError: There is no room for a message.
        """
        if self._failure is not None:
            return
        # Data that has to wait is copied: a view would keep all that was received with it in memory.
        self._coming.append(self._reader.take(memoryview(bytes(data)) if self._coming else data))
        self._has_all = is_last
        self._go_on()
        if (reading := self._reading) is not None and not reading.done():
            reading.set_result(None)

    def fail(self, error: Exception) -> None:
        """Take nothing more, and raise this to the task that reads, after the messages that came before it."""
        self._failure = error
        if (reading := self._reading) is not None and not reading.done():
            reading.set_result(None)

    def only(self) -> bytes:
        """Give the only message, once the caller has sent all.

        Raises:
            RpcStatus: There is none.
        """
        if not self._messages:
            raise RpcStatus(grpc.StatusCode.INTERNAL, "the call ended before its message, expected one")
        return self._messages.popleft()

    async def read(self) -> bytes | None:
        """Give the next message; None once there is none.

        Raises:
            Exception: Why nothing more is taken.
        """
        while not self._messages:
            if self._failure is not None:
                raise self._failure
            if self._coming:
                await asyncio.sleep(0)
                self._read_on()
            elif self._has_all:
                return None
            else:
                self._reading = asyncio.get_running_loop().create_future()
                await self._reading
        message = self._messages.popleft()
        self._unread_bytes -= _LISTED_BYTES + len(message)
        self._expect()
        return await self.unpack(message) if isinstance(message, Packed) else message

    async def unpack(self, message: Packed) -> bytes:
        """Decompress a message, on a thread: a few bytes may become a great many."""
        return await asyncio.to_thread(unpacked, message, self._encoding, self._most_bytes)

    def _read_on(self) -> None:
        """Take more messages out, after other calls have had their turn; keep what this raises for `read`."""
        try:
            self._go_on()
        except UNTAKEN as error:
            self.fail(error)

    def _go_on(self) -> None:
        """Take messages out of what was received, as many as may be ready.

        Raises:
            ServingError: TOO_LARGE.
            RpcStatus: The data is no message, or one more than there should be.
        """
        coming, messages = self._coming, self._messages
        while coming and len(messages) < self._most_ready:
            if (message := next(coming[0], None)) is None:
                coming.popleft()
            else:
                messages.append(message)
                self._unread_bytes += _LISTED_BYTES + len(message)
        is_between = self._reader.is_between
        if self._has_all and not coming and not is_between:
            raise RpcStatus(grpc.StatusCode.INTERNAL, "the call ended in the middle of a message")
        if not self._takes_many and (len(messages) > 1 or (messages and not is_between)):
            raise RpcStatus(grpc.StatusCode.INTERNAL, "the call has more messages than one, expected one")
        self._expect()

    def _expect(self) -> None:
        """Let the caller send on, unless too much of what it has sent is unread."""
        if self._coming or (self._takes_many and self._unread_bytes > MOST_UNREAD_BYTES):
            return
        missing = self._reader.missing
        # Where there should be one message, there is room for the prefix of a second, so that it is noticed.
        further = MOST_UNREAD_BYTES if self._takes_many else PREFIX_BYTES
        if self._stream.credit < max(missing, further // 2):
            self._stream.expect(max(missing, further))
