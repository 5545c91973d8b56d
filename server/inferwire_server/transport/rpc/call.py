"""One gRPC call on its stream: its beginning, its answer, its time limit and its end. `inbox` has what comes in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field

import grpc

from inferwire_proto.errors import Code
from inferwire_server.core.callers import Caller, of_connection
from inferwire_server.errors import ServingError
from inferwire_server.transport.connection_age import Age
from inferwire_server.transport.http2.frames import ErrorCode
from inferwire_server.transport.http2.outflow import Outflow
from inferwire_server.transport.http2.stream import Receiver, Stream
from inferwire_server.transport.rpc.call_head import CallHead, Metadata
from inferwire_server.transport.rpc.fetching import FetchTurns
from inferwire_server.transport.rpc.guard import Guard
from inferwire_server.transport.rpc.inbox import UNTAKEN, Inbox
from inferwire_server.transport.rpc.messages import PREFIX, PREFIX_BYTES, Packed
from inferwire_server.transport.rpc.methods import Method
from inferwire_server.transport.rpc.status import ANSWER_HEADERS, OK, RpcStatus
from inferwire_server.transport.rpc.unread import Refusal, Unread

_MOST_UNSENT_BYTES = 64 * 1024
"""How many bytes may wait for a caller to take them before its call may write no more."""

_DEADLINE = RpcStatus(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
_CANCELLED = RpcStatus(grpc.StatusCode.CANCELLED, "the call was cancelled")
_NOTHING_SENT = "no more of the message has come for too long"
_NOTHING_TAKEN = "no more of the answer has been taken for too long"


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class CallSurroundings:
    """What the calls of a connection share.

    Attributes:
        peer: Who is at the other end.
        age: The connection's.
        caller: Who it is for turns among callers.
        fetching: The turns of those that fetch what is kept; None if they need none.
        calls: The calls that have not ended, also those that their caller has given up.
    """

    guard: Guard
    peer: str
    most_message_bytes: int
    most_header_bytes: int
    age: Age
    caller: Caller = field(default_factory=of_connection)
    fetching: FetchTurns | None = field(default_factory=FetchTurns)
    calls: set[RpcCall] = field(default_factory=set["RpcCall"])


class RpcCall:
    """A call from its headers to its end. It is its stream's receiver, and its method's context."""

    __slots__ = (
        "_around",
        "_has_begun",
        "_has_heard",
        "_head",
        "_inbox",
        "_is_cancelled",
        "_is_running",
        "_loop",
        "_method",
        "_stream",
        "_why_cancelled",
        "_writing",
        "task",
    )

    def __init__(self, stream: Stream, head: CallHead, method: Method, around: CallSurroundings) -> None:
        self._stream = stream
        self._head = head
        self._method = method
        self._around = around
        self._loop = asyncio.get_running_loop()
        self._inbox = Inbox(stream, head.encoding, around.most_message_bytes, takes_many=method.takes_stream)
        self._has_heard = False
        self._has_begun = False
        self._is_cancelled = False
        self._is_running = False
        self._why_cancelled = _CANCELLED
        self._writing: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None
        around.calls.add(self)
        if head.timeout_s is not None:
            stream.limit = self._loop.call_later(head.timeout_s, self._expire)
        if method.takes_stream:
            self._start(b"")

    def __repr__(self) -> str:
        state = "over" if self._stream.is_over else "not begun" if self.task is None else "running"
        return f"<RpcCall {self._head.path}: {state}>"

    @property
    def metadata(self) -> Metadata:
        """What the caller has sent besides its messages."""
        return self._head.metadata

    @property
    def peer(self) -> str:
        """Where the caller is."""
        return self._around.peer

    @property
    def caller(self) -> Caller:
        """Who its connection is for turns among callers."""
        return self._around.caller

    @property
    def outlet(self) -> Outflow:
        """Where the answers on its connection go out."""
        return self._stream.outflow

    @property
    def awaits_data(self) -> bool:
        """Whether the caller is in the middle of a message, or has not sent the only one that the method takes.

        Between messages a caller may take any time.
        """
        return self._inbox.awaits_data if self._method.takes_stream else self.task is None

    def read(self) -> Awaitable[bytes | None]:
        """Give the next message; None once there is none."""
        return self._inbox.read()

    @property
    def has_room(self) -> bool:
        """Whether the caller takes what is sent."""
        return self._stream.unsent <= _MOST_UNSENT_BYTES

    def send(self, message: bytes) -> None:
        """Send a message, or have it wait for the caller to take it."""
        stream = self._stream
        if stream.is_over:
            raise asyncio.CancelledError
        if not self._has_begun:
            self._has_begun = True
            stream.start(ANSWER_HEADERS)
        stream.write((PREFIX.pack(0, len(message)), message), PREFIX_BYTES + len(message))

    async def wait_for_room(self) -> None:
        """Wait while too much waits to be taken."""
        while not self.has_room:
            self._writing = self._loop.create_future()
            await self._writing

    async def write(self, message: bytes) -> None:
        """Send a message, and wait while too much waits to be taken."""
        self.send(message)
        await self.wait_for_room()

    def take_data(self, data: memoryview, *, is_last: bool) -> None:
        """Take data; if the method takes one message, begin the call once all of it is there."""
        self._has_heard = True
        try:
            self._inbox.take(data, is_last=is_last)
            if is_last and not self._method.takes_stream:
                self._start(self._inbox.only())
        except UNTAKEN as error:
            self.refuse(error)

    def take_end(self) -> None:
        """Cancel the call: its caller no longer waits for it."""
        self.cancel()

    def take_room(self) -> None:
        """Write on."""
        if self._writing is not None and not self._writing.done():
            self._writing.set_result(None)

    def take_stall(self) -> None:
        """End the call, and tell its caller why. What the caller has not taken is not sent any more."""
        has_unsent = self._stream.unsent > 0
        sentence = _NOTHING_TAKEN if has_unsent else _NOTHING_SENT
        why = self._around.guard.refuse(ServingError(Code.DEADLINE_EXCEEDED, sentence), self._head, self.peer)
        if has_unsent:
            self._stream.abandon(why.block())
        self.cancel(why)

    def cancel(self, why: RpcStatus = _CANCELLED) -> None:
        """End the call, whatever it does, and tell its caller why."""
        if self._is_cancelled:
            # A second cancel would interrupt what the task does to end.
            return
        self._is_cancelled = True
        self._why_cancelled = why
        if self.task is not None:
            self.task.cancel()
        if not self._is_running:
            # A task that is cancelled before it has begun never runs: so the call is ended here.
            self._fail(why)
            self._end()

    def refuse(self, error: Exception) -> None:
        """Refuse what was received: at once, or if the method takes a stream, when the call reads it."""
        if self._method.takes_stream:
            self._inbox.fail(error)
            return
        self._fail(self._around.guard.refuse(error, self._head, self.peer))
        self._end()

    def unread(self) -> Receiver:
        """Begin as if the message were empty; give a receiver that ignores what comes."""
        self._has_heard = True
        if self.task is None:
            self._start(b"")
        return Unread(self)

    def _start(self, message: bytes) -> None:
        self.task = self._loop.create_task(self._run(message))

    async def _run(self, message: bytes) -> None:
        """Run the call to its end, and answer whatever it raises."""
        self._is_running = True
        guard = self._around.guard
        guard.drain.enter()
        try:
            if isinstance(message, Packed):
                message = await self._inbox.unpack(message)
            turns = self._around.fetching if self._method.is_fetching else None
            if turns is None:
                self._answer(await self._method.call(message, self))
            else:
                async with turns.turn(self._stream.outflow):
                    self._answer(await self._method.call(message, self))
        except asyncio.CancelledError:
            self._fail(self._why_cancelled)
        except Exception as error:  # noqa: BLE001 - a caller gets an answer whatever went wrong
            self._fail(guard.refuse(error, self._head, self.peer))
        finally:
            guard.drain.leave()
            self._end()

    def _answer(self, message: bytes | None) -> None:
        stream = self._stream
        if stream.is_over:
            return
        if message is not None and not self._has_begun:
            size = len(message)
            stream.answer(ANSWER_HEADERS, (PREFIX.pack(0, size), message), PREFIX_BYTES + size, OK)
            return
        if message is not None:
            self.send(message)
        elif not self._has_begun:
            stream.start(ANSWER_HEADERS)
        stream.finish(OK)

    def _fail(self, status: RpcStatus) -> None:
        if self._stream.is_over:
            return
        if self._has_begun:
            self._stream.finish(status.block())
        elif self._has_heard:
            self._stream.finish(ANSWER_HEADERS + status.block())
        else:
            self._stream.receiver = Refusal(self._stream, status)

    def _expire(self) -> None:
        if self in self._around.calls:
            self.cancel(_DEADLINE)
        else:
            # The call has ended, but its caller has not taken the answer within its time limit.
            self._stream.reset(ErrorCode.CANCEL)

    def _end(self) -> None:
        self._around.calls.discard(self)
