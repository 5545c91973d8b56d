"""The session's stream: many executions in flight, gathered into as few messages as traffic allows.

Owns the ids of executions and the thread that reads one stream; `gathering` says what goes into one message, `outgoing`
who sends it, and a carrier carries it. Knows nothing of requests, models or reconnecting.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from inferwire.errors import Cancelled, InferwireError, ServerUnavailable, anew
from inferwire.latch import Latch
from inferwire.transport import codec, rpc
from inferwire.transport.executions import Outcome, WireBytes
from inferwire.transport.session.carriers import Carrier, Pieces
from inferwire.transport.session.gathering import MOST_BYTES, Gathering, Shipment
from inferwire.transport.session.outgoing import Outgoing
from inferwire.transport.session.stream_execution import EncodedHeader, StreamExecution, count_answers, not_taken
from inferwire_proto import raw_fields
from inferwire_proto.inferwire.v1.inference_pb2 import (
    Execution,
    ExecutionResult,
    SessionHello,
    SessionRequest,
    SessionResponse,
    SessionWelcome,
)

LARGE_BYTES = 8 << 20
"""From this size on an execution goes as a call of its own, or from half of what the server takes."""

DEFAULT_MESSAGE_BYTES = 256 << 20
"""What a server is taken to take that does not say it."""


class SessionStream:
    """One open stream, from the hello to its end, after which nothing can be sent on it.

    Attributes:
        welcome: What the server said first.
        most_bytes: The largest message the server takes.
        large_bytes: From what size on an execution is better a call of its own.
        is_open: Whether executions can be sent on it.
    """

    def __init__(self, carrier: Carrier, address: str, hello: SessionHello, timeout_s: float) -> None:
        self._address = address
        self._hello = hello
        self._ids = itertools.count(1)
        self._pending: dict[int, StreamExecution] = {}
        self._cancelled: dict[int, Latch] = {}
        self._gathering = Gathering(self._pending, partial(_let_go, self._cancelled))
        self._outgoing = Outgoing(self._gathering)
        self.is_open = True
        self._ended: InferwireError | None = None
        self._welcomed = threading.Event()
        self._is_closing = False
        self._set_limits(SessionWelcome())
        self._carrier = carrier
        self._send = carrier.send
        self._reader = threading.Thread(target=self._read, name="inferwire-session", daemon=True)
        try:
            carrier.start(self._messages(), self._outgoing.interrupt)
            self._reader.start()
            self._await_welcome(timeout_s)
        except BaseException:
            # Nobody has it who could close it.
            self.finish()
            carrier.cancel()
            raise

    def __repr__(self) -> str:
        state = "open" if self.is_open else "ended"
        return f"<SessionStream {self._address}: {state}, {len(self._pending)} in flight>"

    def submit(self, execution: StreamExecution, encoded: EncodedHeader, byte_size: int) -> None:
        """Send an execution; if the stream ends before the answer comes, fail it with the stream's error."""
        execution.id = id_ = next(self._ids)
        execution.encoded = encoded
        execution.byte_size = byte_size
        execution.flow = None
        self._pending[id_] = execution
        sending = None
        try:
            if self._outgoing.put(execution):
                if self._send is None:
                    self._outgoing.wake()
                else:
                    sending = _Sending(self._send)
                    self._outgoing.send(execution, sending.send)
        except BaseException:
            self._undo(execution, sending)
            raise
        if self._ended is not None and self._pending.pop(id_, None):
            execution.fail(Outcome(error=self._ended))

    def _undo(self, execution: StreamExecution, sending: _Sending | None) -> None:
        """Drop an execution whose submitter was interrupted as it put or sent it, and leave nothing half done."""
        if sending is not None and sending.went:
            # Others' executions may be in the message.
            self.cancel(execution)
            return
        self._pending.pop(execution.id, None)
        if sending is not None and sending.shipment == Shipment([[execution]]):
            self._outgoing.withdraw(execution)
        else:
            # Executions of others may have been taken to be sent; the stream's end sends them again.
            self._carrier.cancel()

    def cancel(self, execution: StreamExecution) -> None:
        """Drop an execution's outcome and tell the server, unless it has ended.

        Takes no lock: a destructor may call it at any point of any thread.
        """
        id_ = execution.id
        if execution.encoded.most_stacked == 1:
            # Noted before it leaves those that are pending: whoever takes its answer looks there first, and here
            # afterwards. What may travel in a stack uses nothing that the server keeps: no call waits for its end.
            answered = Latch()
            if self._cancelled.setdefault(id_, answered) is not answered:
                # Whoever has cancelled it before does the rest. That nobody wants its answer does not say that it came.
                return
        is_pending = self._pending.pop(id_, None) is not None
        if is_pending:
            self._outgoing.withdraw(execution)
        if not is_pending or self._ended is not None:
            # Its answer came, or none will.
            _let_go(self._cancelled, id_)

    def await_cancelled(self) -> None:
        """Wait until the server has answered what was cancelled until now.

        Calls travel beside the stream. One that came before such an execution would be undone by it.
        """
        if threading.current_thread() is self._reader or sys.is_finalizing():
            # It would wait for itself, or runs no more.
            return
        for answered in tuple(self._cancelled.values()):
            answered.wait()

    def finish(self) -> None:
        """Send nothing more; the server then ends the stream. Safe to call from a destructor."""
        self._outgoing.end()

    def disown(self) -> None:
        """Send nothing more from this process, a forked child: the threads that carry the stream are its parent's."""
        self.is_open = False

    def close(self, timeout_s: float) -> None:
        """End the stream now and wait for its reading thread."""
        self._is_closing = True
        self.finish()
        self._carrier.cancel()
        if threading.current_thread() is not self._reader:
            self._reader.join(timeout_s)

    def _set_limits(self, welcome: SessionWelcome) -> None:
        """Keep the welcome, and the sizes of messages that follow from it."""
        self.welcome = welcome
        self.most_bytes = welcome.max_message_bytes or DEFAULT_MESSAGE_BYTES
        self.large_bytes = min(LARGE_BYTES, self.most_bytes // 2)
        self._gathering.most_bytes = min(MOST_BYTES, self.most_bytes // 4)

    def _await_welcome(self, timeout_s: float) -> None:
        if not self._welcomed.wait(timeout_s):
            self.close(timeout_s)
            raise rpc.unavailable(self._address, f"no answer within {timeout_s:g} s")
        if self._ended is not None:
            raise anew(self._ended)

    def _messages(self) -> Iterator[Pieces]:
        yield (SessionRequest(hello=self._hello).SerializeToString(),)
        while True:
            shipment = self._outgoing.take()
            if shipment:
                yield _pieces(shipment)
            elif not shipment.is_last:
                yield ()
            if shipment.is_last:
                return
            # While there is nothing to send, what was sent last is not to be kept.
            del shipment

    def _read(self) -> None:
        """Deliver what comes until the stream ends, then fail what is left."""
        error: InferwireError = ServerUnavailable(f"the server at {self._address} ended the session")
        try:
            for data in self._carrier.receive():
                self._take(data)
        except InferwireError as raised:
            error = raised
            if isinstance(error, Cancelled):
                # Nobody here did: a proxy that gives up a connection says it like that.
                error = rpc.unavailable(self._address, str(error))
        except (ValueError, KeyError) as raised:
            error = InferwireError(f"the server at {self._address} sent what cannot be read: {raised}")
            self._carrier.cancel()
        except BaseException as raised:  # noqa: BLE001 - whoever waits for an answer must hear of it
            error = InferwireError(
                f"reading what the server at {self._address} sends failed: {raised!r}; "
                "where no memory is short, this is a bug"
            )
            self._carrier.cancel()
        self._end(Cancelled(f"the connection to {self._address} was closed here") if self._is_closing else error)

    def _take(self, data: WireBytes) -> None:
        message, raw = raw_fields.split(SessionResponse, data)
        if message.HasField("welcome"):
            self._set_limits(message.welcome)
            self._welcomed.set()
        taken = 0
        for result in message.results:
            buffers = raw[taken : taken + codec.count_sent(result)]
            taken += len(buffers)
            self._answer(result, buffers)
        self._outgoing.answers_came()

    def _answer(self, result: ExecutionResult, raw: Sequence[WireBytes]) -> None:
        """Deliver a result to each of its executions.

        They stay pending until it is decoded, so that `_end` fails them if that raises.
        """
        pending = self._pending
        outcome, outputs = codec.decode_result(result, raw, len(result.ids))
        delivered: list[StreamExecution] = []
        for id_, data in zip(result.ids, outputs, strict=True):
            execution = pending.pop(id_, None)
            if execution is None:
                continue
            delivered.append(execution)
            if outcome.error is not None:
                execution.fail(outcome)
                continue
            try:
                execution.deliver(outcome, data)
            except Exception as raised:  # noqa: BLE001 - the others' answers are to be read still
                execution.fail(not_taken(raised))
        count_answers(delivered, outcome)
        if self._cancelled:
            for id_ in result.ids:
                _let_go(self._cancelled, id_)

    def _end(self, error: InferwireError) -> None:
        self._ended = error
        self.is_open = False
        self.finish()
        self._welcomed.set()
        while self._pending:
            try:
                _, execution = self._pending.popitem()
            except KeyError:
                break
            execution.fail(Outcome(error=error))
        for id_ in tuple(self._cancelled):
            _let_go(self._cancelled, id_)


def _let_go(cancelled: dict[int, Latch], id_: int) -> None:
    """Let go of whoever waits for the end of an execution that was cancelled, if it was."""
    answered = cancelled.pop(id_, None)
    if answered is not None:
        answered.set()


class _Sending:
    """One try to send a shipment from the thread that has put an execution.

    Attributes:
        shipment: What is to go, once it is known.
        went: Not empty once the carrier answers for it: how many bytes went at once.
    """

    __slots__ = ("_send", "shipment", "went")

    def __init__(self, send: Callable[[Pieces, list[int]], None]) -> None:
        self._send = send
        self.shipment: Shipment | None = None
        self.went: list[int] = []

    def send(self, shipment: Shipment) -> None:
        """Hand it to the carrier as one message."""
        self.shipment = shipment
        self._send(_pieces(shipment), self.went)


def _pieces(shipment: Shipment) -> Pieces:
    """Make one message of executions and cancels. Tensors' bytes are still where they were."""
    parts = [SessionRequest(cancels=shipment.cancels).SerializeToString()] if shipment.cancels else []
    buffers: list[raw_fields.Content] = []
    for stack in shipment.stacks:
        encoded = stack[0].encoded
        # Fields may stand in any order: the ids, which alone are new, go behind the header as it is.
        ids = Execution(ids=[each.id for each in stack]).SerializeToString()
        parts.append(raw_fields.field(SessionRequest.EXECUTIONS_FIELD_NUMBER, encoded.data + ids))
        buffers += (
            encoded.sent_of(stack[0].inputs) if len(stack) == 1 else zip(*[each.inputs for each in stack], strict=True)
        )
    return raw_fields.pieces(b"".join(parts), buffers)
