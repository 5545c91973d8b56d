"""ModelStreamInfer: many inferences on one stream, answered in the order they came in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeAlias

from inferwire_server.core.scheduling.job import Job
from inferwire_server.errors import ServingError
from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb
from inferwire_server.service import Services
from inferwire_server.service.refusals import Interface
from inferwire_server.service.values import Wanted
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.error_translation import as_serving_error
from inferwire_server.transport.message_limits import MOST_WAITING_BYTES, checked
from inferwire_server.transport.oip.inference import answer_of
from inferwire_server.transport.request_ids import is_loggable
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.duplex import Duplex
from inferwire_server.transport.rpc.oip_codec import (
    encode_answer,
    encode_streamed,
    encode_streamed_error,
    split_request,
)
from inferwire_server.transport.rpc.oip_plans import LONG_CONTENTS, Plan, long_plan, plan_of

MOST_WAITING = 256
"""How many requests may be unanswered before the stream reads no more."""

_Outcome: TypeAlias = tuple[Wanted, Job] | ServingError


@dataclass(frozen=True, slots=True)
class _Pending:
    """A request that is not answered yet, and what it became: a job, or the reason why not."""

    request_id: str
    outcome: _Outcome

    @property
    def has_ended(self) -> bool:
        """Whether it can be answered."""
        return isinstance(self.outcome, ServingError) or self.outcome[1].state.is_terminal

    @property
    def byte_size(self) -> int:
        """How many bytes of outputs wait to be sent."""
        return 0 if isinstance(self.outcome, ServingError) else sum([out.byte_size for out in self.outcome[1].outputs])


class OipStream:
    """One open stream. Its duplex takes the outgoing messages from it.

    Attributes:
        on_ready: Called when the oldest request can be answered.
    """

    def __init__(self, services: Services, drain: Drain, context: Context, max_message_bytes: int) -> None:
        self._services = services
        self._context = context
        self._max_message_bytes = max_message_bytes
        self._pending: deque[_Pending] = deque()
        self._is_reading = False
        self.on_ready: Callable[[], None]  # its duplex gives it
        self._duplex = Duplex(context, drain, self, self._receive)

    def __repr__(self) -> str:
        return f"<OipStream: {len(self._pending)} requests not answered>"

    async def run(self) -> None:
        """Serve the stream until either side ends it."""
        try:
            await self._duplex.run()
        finally:
            for pending in self._pending:
                if not isinstance(pending.outcome, ServingError):
                    self._services.inference.cancel(pending.outcome[1], "the stream has ended")

    @property
    def is_ready(self) -> bool:
        """Whether the oldest request can be answered."""
        return bool(self._pending) and self._pending[0].has_ended

    @property
    def is_clogged(self) -> bool:
        """Whether the caller takes no answers, and much waits for it."""
        return not self._context.has_room and sum([each.byte_size for each in self._pending]) > MOST_WAITING_BYTES

    @property
    def has_ended(self) -> bool:
        """Whether every request is answered."""
        return not self._pending and not self._is_reading

    @property
    def has_room(self) -> bool:
        """Whether more requests may come: not while too many are not answered."""
        return len(self._pending) < MOST_WAITING

    def take(self) -> bytes:
        """Answer the oldest request."""
        pending = self._pending.popleft()
        try:
            return self._answer(pending)
        except Exception as error:  # noqa: BLE001 - one request's bug is no other's
            where = _where(pending.request_id)
            refusal = as_serving_error(error, **where)
            self._services.refusals.count(Interface.GRPC, refusal, where)
            return encode_streamed_error(refusal.message, pending.request_id)

    def _receive(self, data: bytes) -> Coroutine[Any, Any, None] | None:
        """Start a request; if reading it takes long, give a coroutine that does it."""
        received_at = monotonic()
        request_id, head, raw = split_request(data)
        if len(data) > LONG_CONTENTS and not raw:
            return self._receive_long(request_id, head, received_at)
        try:
            outcome = self._submit(plan_of(head, len(raw)), raw, received_at)
        except Exception as error:  # noqa: BLE001 - one request's bug is no other's
            outcome = as_serving_error(error, **_where(request_id))
        self._put(_Pending(request_id, outcome))
        return None

    async def _receive_long(self, request_id: str, head: pb.ModelInferRequest, received_at: float) -> None:
        self._is_reading = True
        try:
            outcome = self._submit(await long_plan(self._services, head), (), received_at)
        except Exception as error:  # noqa: BLE001 - one request's bug is no other's
            outcome = as_serving_error(error, **_where(request_id))
        finally:
            self._is_reading = False
        self._put(_Pending(request_id, outcome))

    def _submit(self, plan: Plan, raw: Sequence[bytes | memoryview], received_at: float) -> _Outcome:
        submit = self._services.inference.submit
        return plan.wanted, submit(plan.inference(raw), self._wake_if_ready, received_at, self._context.caller, self)

    def _put(self, pending: _Pending) -> None:
        self._pending.append(pending)
        self._wake_if_ready()

    def _wake_if_ready(self, _: Job | None = None) -> None:
        """Wake the writer if it can send something: a request that has ended before an older one is sent after that."""
        if self.is_ready:
            self.on_ready()

    def _answer(self, pending: _Pending) -> bytes:
        if isinstance(pending.outcome, ServingError):
            raise pending.outcome
        answer = answer_of(self._services, *pending.outcome)
        streamed = encode_streamed(encode_answer(answer, pending.request_id, is_final=True))
        message = checked(streamed, self._max_message_bytes)
        self._services.inference.answered(pending.outcome[1])
        return message


def _where(request_id: str) -> dict[str, str]:
    """Say in a log which request is meant."""
    return {"request_id": request_id} if is_loggable(request_id) else {}
