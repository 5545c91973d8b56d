"""One client's stream: executions in, results out, as many of either in a message as there are.

Executions are admitted as they come; their results wait in the outbox until they are sent. Whatever
becomes of an execution is a result: only a message that is wrong as a whole ends the stream. It knows
messages, and nothing of how they are carried.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from inferwire_proto import raw_fields
from inferwire_proto.errors import Code
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_proto.raw_fields import MANY_SHORT_FIELDS
from inferwire_server.core.callers import Caller
from inferwire_server.core.scheduling.job import Job
from inferwire_server.core.sessions import Session
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service import Services
from inferwire_server.service.inference import Prepared
from inferwire_server.service.refusals import Interface
from inferwire_server.transport.error_translation import as_serving_error
from inferwire_server.transport.session.greeting import SessionTerms, open_session, welcome
from inferwire_server.transport.session.outbox import Outbox
from inferwire_server.transport.v1.plans import Plans, Raw, count_sent

_CANCELLED = "the client cancelled the execution"

_MOST_EXECUTIONS = 65536
"""How many executions, alone or in stacks, one message may have: it is in memory until all of them are taken in."""

_MOST_CANCELS = 2**20
"""How many executions one message may cancel: a cancel takes a fraction of the memory."""

AT_ONCE = 64.0
"""How many jobs a stream submits, or executions it cancels, before other connections have their turn."""

_LONGEST_STACK = 1024
"""How many executions of a stack are divided into jobs at once."""

_NOTHING_FOUND = 1 / 64
"""What a cancel counts for, of `AT_ONCE`, if it finds nothing to cancel."""

_Submit: TypeAlias = Callable[[Callable[[Job], None]], Job]
"""Submits one job. The callback that it is given is called at the job's end."""

_Submission: TypeAlias = tuple[Sequence[int], _Submit]
"""The ids of the executions of one job, and what submits it."""


class _Arrival(NamedTuple):
    """When a message was read, and whether its execution may run at once: only if it is the only one, or one stack."""

    received_at: float
    at_once: bool


class SessionStream:
    """One open stream, from the hello to its end.

    Attributes:
        outbox: What is to be sent, for the carrier of the messages to take. While it `expects_more`, a part of the last
            message is not taken in yet, and `go_on` has to be called before the next `receive`.
        left: How much more may be taken in at once. The carrier sets it to `AT_ONCE` in a new turn.
    """

    def __init__(self, services: Services, terms: SessionTerms) -> None:
        self._services = services
        self._terms = terms
        self.outbox = Outbox(terms.max_message_bytes, services.inference.answered)
        self._session: Session | None = None
        self._caller: Caller | None = None
        self._plans = Plans(None)
        self._rest: Iterator[None] | None = None
        self.left = AT_ONCE

    def __repr__(self) -> str:
        return f"<SessionStream of {self._session!r}: {self.outbox!r}>"

    @property
    def is_open(self) -> bool:
        """Whether it has begun and not ended."""
        return self._session is not None

    def begin(self, data: bytes | memoryview, received_at: float) -> bytes:
        """Take the first message, which opens or resumes a session, and give the welcome.

        Raises:
            MeansAnother: If it is for another server; nothing has begun then.
            ServingError: Why there is no session.
            MalformedMessage: If the data is no message.
        """
        message, raw = raw_fields.split(pb.SessionRequest, data, most_beside=MANY_SHORT_FIELDS)
        self._session = session = open_session(self._services, self._terms, message)
        self._caller = session.caller
        self._plans = Plans(session)
        answer = welcome(self._services, self._terms, session)
        self._rest = self._steps(message, raw, received_at, may_run=True)
        self.go_on()
        return answer

    def receive(self, data: bytes | memoryview, received_at: float, *, may_run: bool = True) -> None:
        """Take another message, or the first part of a large one. With `may_run`, its only execution may have run then.

        Raises:
            ServingError: Why the stream cannot go on.
            MalformedMessage: If the data is no message.
        """
        message, raw = raw_fields.split(pb.SessionRequest, data, most_beside=MANY_SHORT_FIELDS)
        self._rest = self._steps(message, raw, received_at, may_run=may_run)
        self.go_on()

    def go_on(self) -> None:
        """Take more of the last message, as much as is `left` to be taken at once.

        Raises:
            ServingError: Why the stream cannot go on.
        """
        for _ in self._rest or ():
            self.outbox.expects_more = True
            return
        self._rest = None
        self.outbox.expects_more = False

    def end(self) -> None:
        """Cancel what runs, and leave the session, if there is one."""
        self._rest = None
        session, self._session = self._session, None
        if session is None:
            return
        for job in self.outbox.jobs:
            self._services.inference.cancel(job, "the session's stream has ended")
        self._services.sessions.detach(session)

    def _steps(self, message: pb.SessionRequest, raw: Raw, received_at: float, *, may_run: bool) -> Iterator[None]:
        """Admit a message's executions, then carry out its cancels; yield while nothing is `left` to be taken now."""
        if message.HasField("hello"):
            raise invalid_input("the stream has a second hello, expected one in its first message only")
        entries = len(message.executions)
        if entries > _MOST_EXECUTIONS or len(message.cancels) > _MOST_CANCELS:
            raise invalid_input(
                f"the message has {entries} executions and {len(message.cancels)} cancels, "
                f"expected at most {_MOST_EXECUTIONS} and {_MOST_CANCELS}"
            )
        taken, count, arrival = 0, 0, _Arrival(received_at, may_run and entries == 1)
        for execution in message.executions:
            ids = execution.ids
            count += len(ids)
            if count > _MOST_EXECUTIONS:
                raise invalid_input(
                    f"the message has {count} executions or more, those in stacks counted, "
                    f"expected at most {_MOST_EXECUTIONS}"
                )
            end = taken + count_sent(execution.inputs)
            if end > len(raw):
                raise invalid_input(
                    f"the message has bytes of {len(raw)} inputs, but its executions have {end} or more"
                )
            yield from self._start(ids[:], execution, raw[taken:end], arrival)
            taken = end
        if taken != len(raw):
            raise invalid_input(f"the message has bytes of {len(raw)} inputs, but its executions have {taken}")
        for execution_id in message.cancels:
            if self.left <= 0:
                yield
            self.left -= 1 if self._cancel(execution_id) else _NOTHING_FOUND

    def _start(self, ids: Sequence[int], execution: pb.Execution, raw: Raw, arrival: _Arrival) -> Iterator[None]:
        """Start an execution, or each of a stack."""
        if self.left <= 0:
            yield
        if not ids:
            raise invalid_input("an execution on the stream has no id, by which its result could be known")
        if (used := self.outbox.in_use(ids)) is not None:
            raise invalid_input(f"id {used} of an execution is in use, expected one that no other has")
        execution.ClearField("ids")
        for some, data in ((ids, raw),) if len(ids) <= _LONGEST_STACK else _cut(ids, execution, raw):
            if len(some) == 1 or not (yield from self._start_stack(some, execution, data, arrival)):
                yield from self._start_each(some, execution, data, arrival)

    def _start_stack(
        self, ids: Sequence[int], execution: pb.Execution, raw: Raw, arrival: _Arrival
    ) -> Generator[None, None, bool]:
        """Start a stack as few jobs, and say whether it was: if not, its executions have to be started one by one."""
        try:
            stack = self._plans.of(execution).stack(raw, len(ids))
            prepare, received_at = self._services.inference.prepare_stack, arrival.received_at
            parts = [] if stack is None else prepare(stack, received_at, self._caller, self.outbox)
        except Exception:  # noqa: BLE001 - started by itself, each execution gets its own error
            return False
        yield from self._submit_each(self._submissions(ids, parts))
        return bool(parts)

    def _submissions(self, ids: Sequence[int], parts: Sequence[Prepared]) -> Iterator[_Submission]:
        """Say how the parts of a stack are submitted, each with its share of the ids."""
        start = 0
        for part in parts:
            yield ids[start : start + part.executions], partial(self._services.inference.submit_prepared, part)
            start += part.executions

    def _start_each(self, ids: Sequence[int], execution: pb.Execution, raw: Raw, arrival: _Arrival) -> Iterator[None]:
        """Start executions one by one."""
        try:
            plan = self._plans.of(execution)
            inferences = [plan.inference(raw)] if len(ids) == 1 else plan.each(raw, len(ids))
        except Exception as error:  # noqa: BLE001 - one execution's bug is no other's
            self.left -= 1
            self._refuse(ids, as_serving_error(error))
            return
        at_once = arrival.at_once and len(ids) == 1
        submit = partial(
            self._services.inference.submit,
            received_at=arrival.received_at,
            caller=self._caller,
            outlet=self.outbox,
            at_once=at_once,
        )
        yield from self._submit_each(
            ((execution_id,), partial(submit, inference))
            for execution_id, inference in zip(ids, inferences, strict=True)
        )

    def _submit_each(self, submissions: Iterable[_Submission]) -> Iterator[None]:
        """Submit jobs one after the other. Those in a row that are refused with equal errors are answered together."""
        refused: list[int] = []
        why: ServingError | None = None
        for ids, submit in submissions:
            if self.left <= 0:
                yield
            self.left -= 1
            refusal = self._submit(ids, submit)
            if refusal is None:
                continue
            if why is not None and not _are_alike(why, refusal):
                self._refuse(refused, why)
                refused = []
            refused += ids
            why = refusal
        if why is not None:
            self._refuse(refused, why)

    def _submit(self, ids: Sequence[int], submit: _Submit) -> ServingError | None:
        """Submit one job, of executions with these ids; give the error if it was not admitted."""
        try:
            job = submit(partial(self.outbox.put, ids))
        except Exception as error:  # noqa: BLE001 - one execution's bug is no other's
            return as_serving_error(error)
        if not job.state.is_terminal:
            self.outbox.admit(ids, job)
        return None

    def _refuse(self, ids: Sequence[int], error: ServingError) -> None:
        """Answer that executions did not become a job."""
        self._services.refusals.count(Interface.SESSION, error, requests=len(ids))
        self.outbox.refuse(ids, error)

    def _cancel(self, execution_id: int) -> bool:
        """Cancel an execution, and say whether it was in flight. If its stack goes on, it is answered at once."""
        found = self.outbox.in_flight(execution_id)
        if found is None:
            return False
        self._services.inference.drop(found.job, found.ids.index(execution_id), _CANCELLED)
        if self.outbox.in_flight(execution_id) is found:
            self.outbox.refuse((execution_id,), ServingError(Code.CANCELLED, _CANCELLED))
        return True


def _cut(ids: Sequence[int], execution: pb.Execution, raw: Raw) -> Iterator[tuple[Sequence[int], Raw]]:
    """Cut a stack into shorter ones, unless it has strings, or bytes that cannot be divided among its executions."""
    count = len(ids)
    has_strings = any(header.element_type == types_pb2.ELEMENT_TYPE_STRING for header in execution.inputs)
    if has_strings or any(len(data) % count for data in raw):
        yield ids, raw
        return
    sizes = [len(data) // count for data in raw]
    for start in range(0, count, _LONGEST_STACK):
        end = start + _LONGEST_STACK
        pairs = zip(raw, sizes, strict=True)
        yield ids[start:end], [memoryview(data)[start * size : end * size] for data, size in pairs]


def _are_alike(one: ServingError, other: ServingError) -> bool:
    """Whether two errors tell callers the same."""
    return (one.code, one.message, one.retry_after_s) == (other.code, other.message, other.retry_after_s)
