"""What a stream has to send: results, gathered into as few messages as do no harm.

Writing a message costs the loop about as much as five tiny executions. So results of executions that took
next to nothing wait until there are as many of them as still run: then one half of the client's
executions is on its way while the other runs, however many it has in flight, and a lone one never waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from inferwire_proto import framing
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_server.core.job import Job
from inferwire_server.errors import ServingError
from inferwire_server.transport.rpc.status import too_large
from inferwire_server.transport.rpc.v1_codec import encode_error, encode_result

_MESSAGE_BYTES = 1 << 20
"""How many bytes of outputs one message gathers; a single result may have more."""

_MOST_WAITING_BYTES = 64 << 20
"""How much may wait before the reader stops taking executions of a client that takes no results."""

_TINY_S = 0.001
"""Results of inferences that took longer are sent at once."""

_LONGEST_HOLD_S = 0.001
"""How long a result waits for others at the most, should what still runs take longer than it did."""

_RESULT_BYTES = 128
"""About what a result has besides its outputs' bytes."""


class Outbox:
    """A stream's executions until their results are sent. One task takes from it.

    Attributes:
        running: The jobs that have not ended, by the ids their client gave.
    """

    def __init__(self, max_message_bytes: int, on_answer: Callable[[Job], None]) -> None:
        self._on_answer = on_answer
        self.running: dict[int, Job] = {}
        self._max_message_bytes = max_message_bytes
        self._ended: deque[tuple[int, Job | ServingError, int]] = deque()
        self._waiting_bytes = 0
        self._is_due = False
        self._due_timer: asyncio.TimerHandle | None = None
        self._something = asyncio.Event()
        self._room = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Outbox: {len(self.running)} running, {len(self._ended)} results of {self._waiting_bytes} bytes>"

    @property
    def is_ready(self) -> bool:
        """Whether there is something to send now."""
        return bool(self._ended) and (self._is_due or len(self._ended) >= len(self.running))

    @property
    def has_ended(self) -> bool:
        """Whether nothing is to be sent now, and nothing is running."""
        return not self._ended and not self.running

    def put(self, execution_id: int, job: Job) -> None:
        """Send the result of a job that has ended."""
        self.running.pop(execution_id, None)
        byte_size = _RESULT_BYTES
        for tensor in job.outputs:
            byte_size += tensor.byte_size
        if job.timings.inference_s > _TINY_S:
            self._is_due = True
        if byte_size > self._max_message_bytes:
            self.refuse(execution_id, too_large(byte_size, self._max_message_bytes))
        else:
            self._put(execution_id, job, byte_size)

    def refuse(self, execution_id: int, error: ServingError) -> None:
        """Send why an execution did not run."""
        self._put(execution_id, error, _RESULT_BYTES)

    def wake(self) -> None:
        """End a wait though there is nothing to send."""
        self._something.set()

    async def wait(self) -> None:
        """Wait until there is something to send, or a wake."""
        await self._something.wait()
        self._something.clear()

    async def has_room(self) -> None:
        """Wait while too much waits to be sent."""
        while self._waiting_bytes > _MOST_WAITING_BYTES:
            self._room.clear()
            await self._room.wait()

    def take(self) -> bytes:
        """Join what is there, up to a good size of message; there has to be something."""
        response = pb.SessionResponse()
        buffers: list[bytes | memoryview] = []
        message_bytes = 0
        while self._ended and (message_bytes == 0 or message_bytes + self._ended[0][2] <= _MESSAGE_BYTES):
            execution_id, outcome, byte_size = self._ended.popleft()
            message_bytes += byte_size
            if isinstance(outcome, Job):
                result, outputs = encode_result(outcome)
                buffers += outputs
                self._on_answer(outcome)
            else:
                result = pb.ExecutionResult(error=encode_error(outcome))
            result.ids.append(execution_id)
            response.results.append(result)
        self._is_due = bool(self._ended)
        if self._due_timer is not None:
            self._due_timer.cancel()
            self._due_timer = None
        self._waiting_bytes -= message_bytes
        self._room.set()
        return framing.join(response.SerializeToString(), buffers, framing.RAW_FIELD, framing.PADDING_FIELD)

    def _put(self, execution_id: int, outcome: Job | ServingError, byte_size: int) -> None:
        self._ended.append((execution_id, outcome, byte_size))
        self._waiting_bytes += byte_size
        if self.is_ready:
            self._something.set()
        elif self._due_timer is None:
            self._due_timer = asyncio.get_running_loop().call_later(_LONGEST_HOLD_S, self._fall_due)

    def _fall_due(self) -> None:
        self._due_timer = None
        self._is_due = True
        self._something.set()
