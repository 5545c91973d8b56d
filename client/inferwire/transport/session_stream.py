"""The session's stream: many executions in flight, gathered into as few messages as traffic allows.

Owns the ids of executions and the two threads that write and read one stream. What piles up while
a message is being written goes out together in the next; nothing waits on a timer. Knows nothing of
requests, models or reconnecting.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from time import perf_counter

import grpc

from inferwire.errors import Cancelled, InferwireError, ServerUnavailable
from inferwire.transport import codec, rpc
from inferwire.transport.protocol import Outcome, WireBytes
from inferwire_proto import framing
from inferwire_proto.inferwire.v1.inference_pb2 import (
    ExecutionResult,
    SessionHello,
    SessionRequest,
    SessionResponse,
    SessionWelcome,
)

MOST_EXECUTIONS = 64
"""How many executions one message carries at the most, so that answers begin to come early."""

MOST_BYTES = 1 << 20
"""How many bytes of inputs one message gathers; a single execution may have more."""

LARGE_BYTES = 8 << 20
"""From this size on an execution goes as a call of its own, or from half of what the server takes."""

DEFAULT_MESSAGE_BYTES = 256 << 20
"""What a server is taken to take that does not say it."""


@dataclass(slots=True, eq=False)
class StreamExecution:
    """An execution on the stream. Cancelling it drops its outcome at once."""

    stream: SessionStream
    id: int
    header: bytes
    inputs: Sequence[WireBytes]
    deliver: Callable[[Outcome], None]
    started: float = field(default_factory=perf_counter)

    @property
    def byte_size(self) -> int:
        """The bytes of its inputs."""
        return sum(map(len, self.inputs))

    def cancel(self) -> None:
        """Drop the outcome and tell the server. Safe to call from a destructor."""
        self.stream.cancel(self)


_Outgoing = StreamExecution | int | None
"""What the writing thread takes: an execution, the id of one to cancel, or None for the end."""


class SessionStream:
    """One open stream, from the hello to its end, after which nothing can be sent on it.

    Attributes:
        welcome: What the server said first.
        most_bytes: The largest message the server takes.
        large_bytes: From what size on an execution is better a call of its own.
    """

    def __init__(self, channel: grpc.Channel, address: str, hello: SessionHello, timeout_s: float) -> None:
        self._address = address
        self._hello = hello
        self._ids = itertools.count(1)
        self._outgoing: SimpleQueue[_Outgoing] = SimpleQueue()
        self._pending: dict[int, StreamExecution] = {}
        self._ended: InferwireError | None = None
        self._welcomed = threading.Event()
        self._is_closing = False
        self._set_limits(SessionWelcome())
        self._call = rpc.open_stream(channel, "InferenceService.Session", self._messages())
        self._reader = threading.Thread(target=self._read, name="inferwire-session", daemon=True)
        self._reader.start()
        self._await_welcome(timeout_s)

    def __repr__(self) -> str:
        state = "open" if self.is_open else "ended"
        return f"<SessionStream {self._address}: {state}, {len(self._pending)} in flight>"

    @property
    def is_open(self) -> bool:
        """Whether executions can be sent on it."""
        return self._ended is None

    def submit(self, header: bytes, inputs: Sequence[WireBytes], deliver: Callable[[Outcome], None]) -> StreamExecution:
        """Send an execution; where the stream ends first, it is delivered the stream's error."""
        execution = StreamExecution(self, next(self._ids), header, inputs, deliver)
        self._pending[execution.id] = execution
        self._outgoing.put(execution)
        if self._ended is not None and self._pending.pop(execution.id, None):
            deliver(Outcome(error=self._ended))
        return execution

    def cancel(self, execution: StreamExecution) -> None:
        """Drop an execution's outcome and tell the server; nothing where it has ended.

        Takes no lock, so that a destructor may call it wherever it interrupts.
        """
        if self._pending.pop(execution.id, None):
            self._outgoing.put(execution.id)

    def finish(self) -> None:
        """Send nothing more; the server then ends the stream. Safe to call from a destructor."""
        self._outgoing.put(None)

    def close(self, timeout_s: float) -> None:
        """End the stream now and wait for its reading thread."""
        self._is_closing = True
        self.finish()
        self._call.cancel()
        if threading.current_thread() is not self._reader:
            self._reader.join(timeout_s)

    def _set_limits(self, welcome: SessionWelcome) -> None:
        """Take what the server says of itself: no message of ours may be larger than it takes."""
        self.welcome = welcome
        self.most_bytes = welcome.max_message_bytes or DEFAULT_MESSAGE_BYTES
        self.large_bytes = min(LARGE_BYTES, self.most_bytes // 2)
        self._gathered_bytes = min(MOST_BYTES, self.most_bytes // 4)

    def _await_welcome(self, timeout_s: float) -> None:
        if not self._welcomed.wait(timeout_s):
            self.close(timeout_s)
            raise rpc.unavailable(self._address, f"no answer within {timeout_s:g} s")
        if self._ended is not None:
            raise self._ended

    def _messages(self) -> Iterator[bytes]:
        yield SessionRequest(hello=self._hello).SerializeToString()
        while True:
            batch, is_last = self._gather()
            if batch:
                yield self._join(batch)
            if is_last:
                return

    def _gather(self) -> tuple[list[StreamExecution | int], bool]:
        """Wait for something to send and take what else is there; the flag says that it is the end."""
        batch: list[StreamExecution | int] = []
        byte_size = 0
        item = self._outgoing.get()
        while item is not None:
            batch.append(item)
            if isinstance(item, StreamExecution):
                byte_size += item.byte_size
            if len(batch) >= MOST_EXECUTIONS or byte_size >= self._gathered_bytes:
                return batch, False
            try:
                item = self._outgoing.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _join(self, batch: list[StreamExecution | int]) -> bytes:
        """Join a batch into one message. Its tensors' bytes are copied here and nowhere else."""
        message = SessionRequest()
        buffers: list[WireBytes] = []
        for item in batch:
            if not isinstance(item, StreamExecution):
                message.cancels.append(item)
            elif item.id in self._pending:
                execution = message.executions.add()
                execution.MergeFromString(item.header)
                execution.ids.append(item.id)
                buffers += item.inputs
        return framing.join(message.SerializeToString(), buffers, framing.RAW_FIELD, framing.PADDING_FIELD)

    def _read(self) -> None:
        """Deliver what comes until the stream ends, then fail what is left."""
        error: InferwireError = ServerUnavailable(f"the server at {self._address} ended the session")
        try:
            for data in self._call:
                self._take(data)
        except grpc.RpcError as raised:
            error = rpc.error_from(raised, self._address)
            if isinstance(error, Cancelled) and not self._is_closing:
                # Nobody here did: a proxy that gives up a connection says it like that.
                error = rpc.unavailable(self._address, str(error))
        except (ValueError, KeyError) as raised:
            error = InferwireError(f"the server at {self._address} sent what cannot be read: {raised}")
            self._call.cancel()
        self._end(error)

    def _take(self, data: bytes) -> None:
        message, raw = framing.split(SessionResponse, data, framing.RAW_FIELD)
        if message.HasField("welcome"):
            self._set_limits(message.welcome)
            self._welcomed.set()
        taken = 0
        for result in message.results:
            buffers = raw[taken : taken + codec.count_sent(result)]
            taken += len(buffers)
            for id_, outputs in zip(result.ids, codec.unstack(result, buffers), strict=True):
                self._answer(id_, result, outputs)

    def _answer(self, id_: int, result: ExecutionResult, outputs: Sequence[WireBytes]) -> None:
        """Deliver a result that can be read; until then the execution stays where the end finds it."""
        execution = self._pending.get(id_)
        if execution is None:
            return
        elapsed_ms = (perf_counter() - execution.started) * 1000
        outcome = codec.decode_result(result, outputs, elapsed_ms)
        if self._pending.pop(id_, None):
            execution.deliver(outcome)

    def _end(self, error: InferwireError) -> None:
        self._ended = error
        self.finish()
        self._welcomed.set()
        while self._pending:
            try:
                _, execution = self._pending.popitem()
            except KeyError:
                break
            execution.deliver(Outcome(error=error))
