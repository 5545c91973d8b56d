"""The session's stream: many executions in flight, gathered into as few messages as traffic allows.

Owns the ids of executions and the thread that reads the stream. `gathering` decides what goes into one message,
`outgoing` which thread sends it, `incoming` which thread receives the answers, and a carrier carries both. Knows
nothing of requests, models or reconnecting.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from inferwire.errors import Cancelled, InferwireError, ServerUnavailable, anew, closed_here
from inferwire.latch import Latch
from inferwire.transport import codec, rpc
from inferwire.transport.executions import Outcome, WireBytes
from inferwire.transport.session.carriers import Carrier, Pieces
from inferwire.transport.session.gathering import MOST_BYTES, Gathering, Shipment
from inferwire.transport.session.incoming import BrokenOff, Incoming
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
"""An execution of this size or more goes as a call of its own; or of half the server's limit, if that is less."""

DEFAULT_MESSAGE_BYTES = 256 << 20
"""The largest message that a server is assumed to take if it does not say."""


class SessionStream:
    """One open stream, from the hello to its end, after which nothing can be sent on it.

    Attributes:
        welcome: The server's first message.
        most_bytes: The largest message the server takes.
        large_bytes: The size from which an execution is better sent as a call of its own.
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
        self._incoming = Incoming(carrier.receive(), carrier.has_come, self._take, self._pending)
        self._reader = threading.Thread(target=self._read, name="inferwire-session", daemon=True)
        try:
            carrier.start(self._messages(), self._outgoing.interrupt)
            self._reader.start()
            self._await_welcome(timeout_s)
        except BaseException:
            # No caller gets the stream, so none could close it.
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
        if self._incoming.stands_by and not execution.is_awaited:
            self._incoming.resume()

    def attend(self, answered: Latch, began: float, timeout_s: float | None = None) -> bool:
        """Wait for the answer to an execution that `is_awaited` and was submitted at `began`; tell whether it came."""
        return self._incoming.attend(answered, began, timeout_s)

    def _undo(self, execution: StreamExecution, sending: _Sending | None) -> None:
        """Drop an execution whose thread was interrupted while putting or sending it, and leave nothing half done."""
        if sending is None or sending.went:
            # This thread has taken nothing to send, or the message is sent, perhaps with other threads' executions.
            self.cancel(execution)
            return
        self._pending.pop(execution.id, None)
        if sending.shipment == Shipment([[execution]]):
            self._outgoing.withdraw(execution)
        else:
            # Other threads' executions may have been taken and not sent. Ending the stream has them sent again.
            self._carrier.cancel()

    def cancel(self, execution: StreamExecution) -> None:
        """Drop an execution's outcome and tell the server, unless the execution has ended.

        Takes no lock: a destructor may call it at any point of any thread.
        """
        id_ = execution.id
        if execution.encoded.most_stacked == 1:
            # Added here before it is removed from `_pending`, because whoever takes its answer looks for it in
            # `_pending` first and here afterwards. An execution that may be stacked uses nothing that the server keeps,
            # so no call waits for its end.
            answered = Latch()
            if self._cancelled.setdefault(id_, answered) is not answered:
                # An earlier call of `cancel` does the rest. Its answer need not have come, though it is not pending.
                return
        is_pending = self._pending.pop(id_, None) is not None
        if is_pending:
            self._outgoing.withdraw(execution)
        self._incoming.resume()
        if not is_pending or self._ended is not None:
            # Its answer has come, or never will.
            _let_go(self._cancelled, id_)

    def await_cancelled(self) -> None:
        """Wait until the server has answered all executions cancelled so far.

        Unary calls travel beside the stream. If one overtook a cancelled execution, that could undo what the call did.
        """
        if self._incoming.is_here() or sys.is_finalizing():
            # This thread would wait for itself, or the reading thread no longer runs.
            return
        for answered in [*self._cancelled.values()]:
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
        self._incoming.resume()
        if threading.current_thread() is not self._reader:
            self._reader.join(timeout_s)

    def _set_limits(self, welcome: SessionWelcome) -> None:
        """Keep the welcome, and set the limits on messages that follow from it."""
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
            # Do not keep the sent tensors alive while there is nothing to send.
            del shipment

    def _read(self) -> None:
        """Deliver answers until the stream ends, then fail the executions that are still pending."""
        error: InferwireError = ServerUnavailable(f"the server at {self._address} ended the session")
        try:
            self._incoming.run()
        except BrokenOff as raised:
            error = rpc.unavailable(self._address, f"the receiving of an answer was broken off by {raised}")
            self._carrier.cancel()
        except InferwireError as raised:
            # Its traceback refers to this frame, and so to the stream: only garbage collection would free that cycle.
            error = raised.with_traceback(None)
            if isinstance(error, Cancelled):
                # Not by this side: a proxy that gives up a connection reports it like that.
                error = rpc.unavailable(self._address, str(error))
        except (ValueError, KeyError) as raised:
            error = InferwireError(f"the server at {self._address} sent what cannot be read: {raised}")
            self._carrier.cancel()
        except BaseException as raised:  # noqa: BLE001 - threads that wait for answers must be told
            error = InferwireError(
                f"reading what the server at {self._address} sends failed: {raised!r}; "
                "where no memory is short, this is a bug"
            )
            self._carrier.cancel()
        self._end(closed_here(self._address) if self._is_closing else error)

    def _take(self, data: WireBytes) -> None:
        message, raw = raw_fields.split(SessionResponse, data)
        if message.HasField("welcome"):
            self._set_limits(message.welcome)
            self._welcomed.set()
        if self._incoming.is_attended() and not self._are_awaited(message):
            self._incoming.leave(data)
            return
        taken = 0
        for result in message.results:
            buffers = raw[taken : taken + codec.count_sent(result)]
            taken += len(buffers)
            self._answer(result, buffers)
        self._outgoing.answers_came()

    def _are_awaited(self, message: SessionResponse) -> bool:
        """Whether it has answers only to executions for which threads wait."""
        get = self._pending.get
        return all((each := get(id_)) is None or each.is_awaited for result in message.results for id_ in result.ids)

    def _answer(self, result: ExecutionResult, raw: Sequence[WireBytes]) -> None:
        """Deliver a result to each of its executions.

        They stay pending until the result is decoded, so that `_end` fails them if decoding raises.
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
            except Exception as raised:
                if self._incoming.is_attended():
                    # On a waiting thread it may be a signal handler's.
                    raise
                # Other executions' answers are still to be read.
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
        # What was taken out of `pending` by a thread that was broken off may not have been delivered. A second delivery
        # changes nothing.
        at_risk, self._incoming.at_risk = self._incoming.at_risk, []
        taken_out = [execution for execution in at_risk if execution.id not in self._pending]
        # The oldest first, because they may be sent again in this order. `submit` looks itself whether the stream has
        # ended, so that none is missed which comes while they are listed.
        for execution in taken_out:
            execution.fail(Outcome(error=error))
        for id_ in [*self._pending]:
            execution = self._pending.pop(id_, None)
            if execution is not None:
                execution.fail(Outcome(error=error))
        for id_ in [*self._cancelled]:
            _let_go(self._cancelled, id_)


def _let_go(cancelled: dict[int, Latch], id_: int) -> None:
    """Wake the threads that wait for the end of an execution, if it was cancelled."""
    answered = cancelled.get(id_)
    if answered is not None:
        answered.set()
        # Only then, so that where a signal handler raises, the end of the stream wakes them.
        cancelled.pop(id_, None)


class _Sending:
    """One attempt to send a shipment from the thread that put an execution.

    Attributes:
        shipment: What is sent, once it is known.
        went: How many bytes went at once; empty until the carrier is sure to send the whole message.
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
    """Make one message of executions and cancels, without copying the tensors' bytes."""
    parts = [SessionRequest(cancels=shipment.cancels).SerializeToString()] if shipment.cancels else []
    buffers: list[raw_fields.Content] = []
    for stack in shipment.stacks:
        encoded = stack[0].encoded
        # Protobuf takes fields in any order, so the ids, the only new part, are put behind the encoded header.
        ids = Execution(ids=[each.id for each in stack]).SerializeToString()
        parts.append(raw_fields.field(SessionRequest.EXECUTIONS_FIELD_NUMBER, encoded.data + ids))
        buffers += (
            encoded.sent_of(stack[0].inputs) if len(stack) == 1 else zip(*[each.inputs for each in stack], strict=True)
        )
    return raw_fields.pieces(b"".join(parts), buffers)
