"""One execution of a request: `Run`.

Owns who is told of its end, in which order. Whether its request is busy meanwhile is `request_state`'s business.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from enum import Enum, auto

from inferwire.errors import QueueFull, anew
from inferwire.latch import Latch
from inferwire.process import THIS
from inferwire.requests.freight import Freight
from inferwire.transport.executions import Execution, Outcome

FORKED = (
    "the inference was started by the process that forked this one, and only that process gets its answer; "
    "create requests and queues of your own after the fork"
)

FINALIZING = "the interpreter is shutting down, and the threads that would take the answer run no more"


class Phase(Enum):
    """How far one execution is."""

    RUNNING = auto()
    """It is being prepared, or the server has it."""
    ANSWERED = auto()
    """Its answer is here, and the thread that waited for that has yet to store it."""
    CANCELLED = auto()
    """It was given up; an answer that comes later is dropped."""
    ENDED = auto()
    """Its outputs are stored, or it has failed."""


class Run:
    """One execution of a request, from its start until all who wait for it have been told.

    Attributes:
        on_end: Called once as it ends, well or not, and has `give_back` called, now or later; without one, that is
            called as it ends.
        release: Gives its request back to the queue that has it; None where no queue has, or it was given back.
        position: The position of its request in that queue; -1 where it has none.
        callback: Called once it has succeeded.
        on_no_room: Called where the server's queue is full, with the refusal and with what submits the execution again,
            which goes on meanwhile: its request stays busy. None where a refusal is its end.
        answer_latch: Set by the answer or a cancel, where a thread waits for the answer to store it itself.
        phase: How far it is.
        error: Why it has no outputs; raised by every wait.
        outcome: The answer, until it is stored.
        execution: What cancels it on the transport, while that has it.
        done: Set at the very end, after the callback.
        callback_thread: The thread that runs the callback now.
        pid: The process that began it.
        freight: What it takes to the server and leaves there, held so that the server keeps its part until the end.
    """

    # Attributes of the class, and not set for each: one is made for every inference, and few need these.
    position = -1
    callback: Callable[[], object] | None = None
    on_no_room: Callable[[Run, QueueFull, Callable[[], object]], object] | None = None
    answer_latch: Latch | None = None
    phase = Phase.RUNNING
    error: RuntimeError | None = None
    outcome: Outcome | None = None
    execution: Execution | None = None
    callback_thread: int | None = None
    freight: Freight | None = None

    def __init__(
        self,
        on_end: Callable[[Run], object] | None = None,
        release: Callable[[Run], object] | None = None,
        *,
        is_awaited: bool = False,
    ) -> None:
        self.on_end = on_end
        self.release = release
        if is_awaited:
            self.answer_latch = Latch()
        self.done = Latch()
        self.pid = THIS.pid

    def __repr__(self) -> str:
        return f"<Run: {self.phase.name.lower()}, {'done' if self.done.is_set() else 'not done'}>"

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for its end where it was begun, or is told of it."""
        return self.answer_latch is not None or self.on_end is not None

    def await_answer(self) -> None:
        """Block the one thread that waits for the answer itself, until it is there or cancelled."""
        if self.answer_latch is not None:
            if sys.is_finalizing():
                raise RuntimeError(FINALIZING)
            self.answer_latch.wait()

    def check_awaited(self) -> None:
        """Refuse to wait for an end that nothing in this process will see.

        Raises:
            RuntimeError: If it has not ended, and another process began it or the interpreter shuts down.
        """
        if self.done.is_set():
            return
        if self.pid != THIS.pid:
            raise RuntimeError(FORKED)
        if sys.is_finalizing():
            raise RuntimeError(FINALIZING)

    def call_back(self) -> None:
        """Call back, and then conclude. What the callback raises is the business of those who wait."""
        self.callback_thread = threading.get_ident()
        callback = self.callback
        try:
            if callback is not None:
                callback()
        except BaseException as error:  # noqa: BLE001 - raised again by every wait
            self.error = RuntimeError(_described(error))
        finally:
            self.callback_thread = None
            self.conclude()

    def conclude(self) -> None:
        """Let go of everybody who waits for the end, and of what the execution needed.

        Its request keeps it, and what it calls may keep the request: a cycle that only garbage collection would free.
        """
        self.freight = None
        self.done.set()
        # Only now: whoever wants no call any more clears `on_end` and then looks at `done`, so that one sees the other.
        on_end, self.on_end = self.on_end, None
        self.callback = self.on_no_room = None
        if on_end is not None:
            on_end(self)
        elif self.release is not None:
            self.give_back()

    def give_back(self) -> None:
        """Give its request back to the queue that has it, if it has not been given back."""
        if self.release is not None:
            self.release(self)
            self.release = None

    def raise_error(self) -> None:
        """Raise what went wrong, if anything did."""
        if self.error is not None:
            raise anew(self.error)

    def stop(self) -> None:
        """Give it up on the transport, and let go of the thread that waits for its answer."""
        execution, self.execution = self.execution, None
        if execution is not None:
            execution.cancel()
        if self.answer_latch is not None:
            self.answer_latch.set()


def _described(error: BaseException) -> str:
    """Say what a callback raised and where, as openvino does."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    places = "\n".join(f"  {frame.filename}({frame.lineno}): {frame.name}" for frame in reversed(frames))
    return f"{type(error).__name__}: {error}\n\nAt:\n{places}\n"
