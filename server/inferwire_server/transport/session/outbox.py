"""What a session has to send: results, gathered into as few messages as do no harm.

Writing a message costs the loop about as much as five tiny executions, and wakes threads on both sides. So the results
of executions that took next to nothing wait until there are as many of them as executions in flight. Then one half of
the client's executions is on its way while the other half runs, however many there are, and a lone result never waits.
Results of executions that took a little longer wait only while more of the client's executions wait for a slot than
results would be sent: no slot is idle because of that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from math import inf
from typing import NamedTuple

from inferwire_proto import raw_fields
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_server.core.layers import LayerTime
from inferwire_server.core.scheduling.job import Job, JobState, Result
from inferwire_server.core.scheduling.stacks import is_whole, results
from inferwire_server.errors import ServingError
from inferwire_server.transport.message_limits import MOST_WAITING_BYTES, answer_too_large
from inferwire_server.transport.v1.codec import encode_error, encode_result

_MESSAGE_BYTES = 1 << 20
"""How many bytes of outputs one message gathers; a single result may have more."""

_TINY_S = 0.001
"""Results of inferences that took longer are sent at once, unless others of the client wait for a slot."""

_SHORT_S = 0.01
"""Results of inferences that took longer are sent at once in any case: gathering them would win next to nothing."""

_HOLD_FLOOR_S = 0.001
"""How long any result that is held may wait for others, however little time its inference took."""

_HOLD_PER_INFERENCE = 2
"""How many times as long as its inference took a result that is held may wait, where that is longer than the floor."""

_RESULT_BYTES = 128
"""About what a result has besides its outputs' bytes, the sentence of its error, and its layers."""

_LAYER_BYTES = 24
"""About what a layer has besides its names."""


class InFlight(NamedTuple):
    """A job that has not ended, and the ids of its executions in its order. All of them share one of these."""

    job: Job
    ids: Sequence[int]


class _Ended(NamedTuple):
    """The result of one execution, or of all executions of a stack together. Those that never ran have no job."""

    ids: Sequence[int]
    job: Job | None
    result: Result
    byte_size: int


class Outbox:
    """A session's executions on one connection, until their results are sent. One writer takes from it.

    Attributes:
        on_ready: Called whenever something becomes ready to be sent.
        expects_more: Whether executions have been received that are still to be admitted or refused.
    """

    def __init__(self, max_message_bytes: int, on_answer: Callable[[Job, int], None]) -> None:
        self._on_answer = on_answer
        self.on_ready: Callable[[], None] = _nobody_waits
        self.expects_more = False
        self._in_flight: dict[int, InFlight] = {}
        self._max_message_bytes = max_message_bytes
        self._ended: deque[_Ended] = deque()
        self._waiting = 0
        self._waiting_bytes = 0
        self._is_due = False
        self._due_timer: asyncio.TimerHandle | None = None
        self._due_at = inf

    def __repr__(self) -> str:
        return f"<Outbox: {len(self._in_flight)} in flight, {self._waiting} results of {self._waiting_bytes} bytes>"

    @property
    def is_ready(self) -> bool:
        """Whether there is something to send now."""
        return bool(self._ended) and (self._is_due or self._waiting >= len(self._in_flight))

    @property
    def has_ended(self) -> bool:
        """Whether nothing is to be sent now, and nothing is in flight or still to be admitted."""
        return not (self._ended or self._in_flight or self.expects_more)

    @property
    def is_clogged(self) -> bool:
        """Whether so much waits to be sent that no more executions start."""
        return self._waiting_bytes > MOST_WAITING_BYTES

    @property
    def has_room(self) -> bool:
        """Whether more executions may come."""
        return not self.is_clogged

    @property
    def jobs(self) -> Collection[Job]:
        """The jobs that have not ended, each once."""
        return dict.fromkeys([each.job for each in self._in_flight.values()])

    def admit(self, ids: Sequence[int], job: Job) -> None:
        """Record a job that has not ended, of executions with these ids."""
        self._in_flight.update(dict.fromkeys(ids, InFlight(job, ids)))

    def in_use(self, ids: Sequence[int]) -> int | None:
        """Give one of the ids that an execution in flight has, or that is given twice; None if there is none."""
        in_flight = self._in_flight
        if len(ids) == 1:
            return ids[0] if ids[0] in in_flight else None
        if len(set(ids)) == len(ids) and in_flight.keys().isdisjoint(ids):
            return None
        seen: set[int] = set()
        for execution_id in ids:
            if execution_id in in_flight or execution_id in seen:
                return execution_id
            seen.add(execution_id)
        return None

    def in_flight(self, execution_id: int) -> InFlight | None:
        """Give the job of the execution of this id, with the ids of all its executions; None if it is not in flight."""
        return self._in_flight.get(execution_id)

    def put(self, ids: Sequence[int], job: Job) -> None:
        """Have the results of an ended job sent, except for dropped executions, which are answered already."""
        took_s = job.timings.inference_s
        if took_s > _TINY_S and (took_s > _SHORT_S or not self._has_backlog(len(ids))):
            self._is_due = True
        hold_s = max(_HOLD_FLOOR_S, _HOLD_PER_INFERENCE * took_s)
        for ended in _parts(ids, job):
            for execution_id in ended.ids:
                self._in_flight.pop(execution_id, None)
            if ended.byte_size > self._max_message_bytes:
                self._put(_refused(ended.ids, answer_too_large(ended.byte_size, self._max_message_bytes)))
            else:
                self._put(ended, hold_s)

    def refuse(self, ids: Sequence[int], error: ServingError) -> None:
        """Have the reason sent why executions did not run, or have no result of their own."""
        for execution_id in ids:
            self._in_flight.pop(execution_id, None)
        self._put(_refused(ids, error))

    def take(self) -> bytes:
        """Take results, and join them into one message of a good size. There has to be at least one."""
        results: list[bytes] = []
        buffers: list[bytes | memoryview] = []
        message_bytes = 0
        while self._ended and (message_bytes == 0 or message_bytes + self._ended[0].byte_size <= _MESSAGE_BYTES):
            ended = self._ended.popleft()
            message_bytes += ended.byte_size
            self._waiting -= len(ended.ids)
            result, outputs = self._encode(ended)
            results.append(raw_fields.field(pb.SessionResponse.RESULTS_FIELD_NUMBER, result))
            buffers += outputs
        self._is_due = bool(self._ended)
        self._stop_timer()
        self._waiting_bytes -= message_bytes
        return raw_fields.join(b"".join(results), buffers)

    def _encode(self, ended: _Ended) -> tuple[bytes, list[bytes | memoryview]]:
        if ended.job is not None:
            if not isinstance(ended.result, ServingError):
                self._on_answer(ended.job, len(ended.ids))
            return encode_result(ended.job, ended.result, ended.ids)
        error = encode_error(ended.result) if isinstance(ended.result, ServingError) else None
        return pb.ExecutionResult(ids=ended.ids, error=error).SerializeToString(), []

    def _has_backlog(self, ended: int) -> bool:
        """Whether more executions wait for a slot than results would be sent, with those of `ended` new ones.

        This looks at one execution only. A client's executions mostly start in the order in which they came: if the one
        with as many behind it as results would be sent is queued, so are those behind it.
        """
        waiting = self._waiting + ended
        one = next(islice(reversed(self._in_flight.values()), waiting, None), None)
        return one is not None and one.job.state is JobState.QUEUED and self._waiting_bytes < _MESSAGE_BYTES

    def _put(self, ended: _Ended, hold_s: float = _HOLD_FLOOR_S) -> None:
        self._ended.append(ended)
        self._waiting += len(ended.ids)
        self._waiting_bytes += ended.byte_size
        if self.is_ready:
            self.on_ready()
            return
        loop = asyncio.get_running_loop()
        due_at = loop.time() + hold_s
        if due_at < self._due_at:
            self._stop_timer()
            self._due_timer, self._due_at = loop.call_at(due_at, self._fall_due), due_at

    def _fall_due(self) -> None:
        self._stop_timer()
        self._is_due = True
        self.on_ready()

    def _stop_timer(self) -> None:
        if self._due_timer is not None:
            self._due_timer.cancel()
        self._due_timer, self._due_at = None, inf


def _nobody_waits() -> None:
    """Do nothing: nothing has asked to be told."""


def _parts(ids: Sequence[int], job: Job) -> Iterator[_Ended]:
    """Give a job's results as one, if they are one and of a good size; else those of each execution."""
    if is_whole(job):
        together = _ended(ids, job, job.error or job.outputs)
        if len(ids) == 1 or together.byte_size <= _MESSAGE_BYTES:
            yield together
            return
    for index, (execution_id, result) in enumerate(zip(ids, results(job), strict=True)):
        if index not in job.dropped:
            yield _ended((execution_id,), job, result)


def _ended(ids: Sequence[int], job: Job, result: Result) -> _Ended:
    if isinstance(result, ServingError):
        byte_size = _RESULT_BYTES + len(result.message)
    else:
        byte_size = _RESULT_BYTES + sum([tensor.byte_size for tensor in result])
    if job.profile:
        byte_size += sum(map(_layer_bytes, job.profile))
    return _Ended(ids, job, result, byte_size)


def _refused(ids: Sequence[int], error: ServingError) -> _Ended:
    return _Ended(ids, None, error, _RESULT_BYTES + len(error.message))


def _layer_bytes(layer: LayerTime) -> int:
    return _LAYER_BYTES + len(layer.node_name) + len(layer.node_type) + len(layer.exec_type)
