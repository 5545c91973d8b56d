"""Which thread receives a stream's messages: `Incoming`.

A stream has one reading thread. For one brief inference after another it is in the way: the system has to wake it for
each answer, and it wakes the thread that waits for that, each on a core that may have gone idle. All this takes longer
than a small inference. So the reading thread then stands by, and the thread that waits for an answer receives it
itself: it looks for it again and again, for a moment, instead of sleeping. Knows no message format and no carrier.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any

from inferwire.errors import InferwireError
from inferwire.latch import Latch
from inferwire.signal_handlers import is_a_handlers
from inferwire.transport.executions import WireBytes
from inferwire.transport.session.stream_execution import StreamExecution

WINDOW_S = 0.0005
"""A wait for an answer is brief if it is over within this time; a waiting thread looks for its answer no longer."""

STAND_BY_S = 0.01
"""How long the reading thread stands by with no thread that waits. What no thread waits for is noticed after that: an
answer, or the loss of the connection."""

LEAST_BRIEF = 4
"""How many brief waits there have to be, one right after the other, before the reading thread stands by."""


class BrokenOff(Exception):
    """An exception, as a signal handler's, came while a waiting thread received: what it received may be lost."""


class Incoming:
    """Receives the messages of a stream, one thread at a time.

    The reading thread calls `run`. Any other thread may call `attend`, and `resume`, which takes no lock, because a
    destructor may call it at any point of any thread.

    Attributes:
        stands_by: Whether the reading thread leaves it to waiting threads to receive.
        at_risk: The executions that were pending when a waiting thread was broken off.
    """

    def __init__(
        self,
        messages: Generator[WireBytes | None],
        has_come: Callable[[], object] | None,
        take: Callable[[WireBytes], object],
        pending: Mapping[Any, StreamExecution],
        clock: Callable[[], float] = perf_counter,
        stand_by_s: float = STAND_BY_S,
    ) -> None:
        """Receive `messages` and `take` each.

        Args:
            messages: Waits for the next message, or gives None where no whole one has come. Closed at the end of `run`.
            has_come: Says whether anything has come, without waiting; None if nobody can tell.
            take: Takes a message.
            pending: The executions without an answer, by their ids. Each is added before it is sent.
            clock: Gives the time in seconds.
            stand_by_s: How long the reading thread stands by with no thread that waits.
        """
        self.stands_by = False
        self.at_risk: list[StreamExecution] = []
        self._messages = messages
        self._has_come = has_come if _has_cores() else None
        self._take = take
        self._pending = pending
        self._clock = clock
        self._stand_by_s = stand_by_s
        # Held by the thread that receives.
        self._turn = threading.Lock()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        # Messages that waiting threads have received and left to the reading thread.
        self._left: deque[WireBytes] = deque()
        self._failure: Exception | None = None
        self._reader: int | None = None
        self._attendant: int | None = None
        self._attended = 0
        # Waits that were brief, one right after the other, and when the last of them ended.
        self._brief = 0
        self._ended_at = 0.0

    def __repr__(self) -> str:
        return f"<Incoming: {'stands by' if self.stands_by else 'reads'}, {self._brief} brief waits>"

    def run(self) -> None:
        """Receive until the stream ends. For the reading thread.

        Raises:
            BrokenOff: If a waiting thread was broken off as it received.
            Exception: What the messages or taking one of them raised.
        """
        self._reader = threading.get_ident()
        try:
            while self._go_on():
                if self._brief >= LEAST_BRIEF:
                    self._stand_by()
        finally:
            with self._turn:
                self._messages.close()
                # It belongs to the stream, which has this: only garbage collection would free that cycle.
                self._take = _not_any_more

    def is_here(self) -> bool:
        """Whether the calling thread receives, so that it must not wait for what comes."""
        return threading.get_ident() in (self._reader, self._attendant)

    def is_attended(self) -> bool:
        """Whether a message is being taken on a waiting thread."""
        return self._attendant is not None

    def attend(self, answered: Latch, began: float, timeout_s: float | None = None) -> bool:
        """Wait for an answer, receiving it on the calling thread if the reading thread stands by.

        Args:
            answered: Set when the answer is taken.
            began: When the execution was sent, by the clock.
            timeout_s: How long to wait at most. With it, the calling thread takes only what has come already.

        Returns:
            Whether the answer was taken.

        Raises:
            BaseException: What a signal handler raises.
        """
        if self.stands_by:
            looks_for_s = WINDOW_S if timeout_s is None else 0.0
            self._receive_until(answered, self._clock() + looks_for_s)
            if not answered.is_set():
                self.resume()
            return answered.wait(timeout_s)
        was_taken = answered.wait(timeout_s)
        if self._has_come is not None and timeout_s is None:
            ended = self._clock()
            is_brief = ended - began < WINDOW_S and began - self._ended_at < self._stand_by_s
            self._brief, self._ended_at = self._brief + 1 if is_brief else 0, ended
        return was_taken

    def leave(self, message: WireBytes) -> None:
        """Leave a message to the reading thread. For `take`, if it is called on a waiting thread."""
        self._left.append(message)

    def resume(self) -> None:
        """Have the reading thread receive again: answers are due that no waiting thread receives."""
        if self.stands_by:
            self._brief = 0
            self.stands_by = False
            self._wakes.put(None)

    def _go_on(self) -> bool:
        """Receive once, waiting for it; return False at the end."""
        with self._turn:
            if self._left:
                self._take(self._left.popleft())
                return True
            if self._failure is not None:
                raise self._failure
            return self._receive()

    def _receive(self) -> bool:
        try:
            message = next(self._messages)
        except StopIteration:
            return False
        if message is not None:
            self._take(message)
        return True

    def _stand_by(self) -> None:
        """Leave it to waiting threads to receive, until none has for a while or `resume` is called."""
        self.stands_by = True
        # Executions are added to `pending`, and then `resume` looks at the flag. We set that and then look at
        # `pending`, so that one of us sees the other.
        if self._pending:
            self.stands_by = False
            return
        attended = -1
        while attended != self._attended:
            attended = self._attended
            with suppress(Empty):
                self._wakes.get(timeout=self._stand_by_s)
                break
        self.stands_by = False
        self._brief = 0

    def _receive_until(self, answered: Latch, until: float) -> None:
        """Receive on the calling thread, unless another does, until the answer is there or it is time to sleep."""
        turn: list[bool] = []
        try:
            # A single step of the interpreter, which runs signal handlers only after it: `turn` has the answer by then.
            turn.extend(map(self._turn.acquire, (False,)))
            if not turn[0]:
                return
            self._attended += 1
            has_come = self._has_come
            while has_come is not None and not answered.is_set():
                if has_come():
                    if not self._receive_here():
                        return
                elif self._clock() >= until:
                    return
        finally:
            if turn and turn[0]:
                self._turn.release()

    def _receive_here(self) -> bool:
        """Receive once, on a waiting thread; return False if what follows is for the reading thread, as the end is.

        A signal handler may raise in any step. A part of a message may be lost then, or an answer that is not delivered
        yet, and with it the stream.
        """
        if self._failure is not None:
            return False
        here, unknown = threading.get_ident(), BrokenOff("an exception")
        self.at_risk = [*self._pending.values()]
        # For as long as it is not known how this ends: an exception may come even as another is looked at.
        self._failure = unknown
        try:
            self._attendant = here
            may_go_on = self._receive() and not self._left
        except BaseException as error:
            if isinstance(error, (InferwireError, ValueError, KeyError)) and not is_a_handlers(error):
                self._failure = error
                return False
            self._failure = BrokenOff(repr(error))
            raise
        finally:
            self._attendant = None
        self._failure = None
        self.at_risk = []
        return may_go_on


def _not_any_more(message: WireBytes) -> None:
    """Stand in for `take` once no more messages come."""


def _has_cores() -> bool:
    """Whether this process may use more than one core: on a single one, looking for an answer would delay it."""
    return (len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1) > 1
