"""One execution of a request: `Run`.

Owns who is told of its end, in which order. Whether its request is busy meanwhile is `request_state`'s business.

Who is told last gives the request back to the queue that has it, if one has: the call that waits for the end, once it
has read the results; where none waits, the queue, once the callbacks have run.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Protocol

from inferwire.errors import InferwireError, anew
from inferwire.latch import Latch
from inferwire.process import FINALIZING, THIS
from inferwire.requests.freight import Freight
from inferwire.transport.executions import Execution, Outcome, OutputBytes

FORKED = (
    "the inference was started by the process that forked this one, and only that process gets its answer; "
    "create requests and queues of your own after the fork"
)


class Holder(Protocol):
    """A queue that has the request of an execution."""

    def give_back(self, run: Run) -> None:
        """Take the request back."""
        ...

    def put_off(self, run: Run, refusal: InferwireError, again: Callable[[], object]) -> bool:
        """Submit an execution again later that the server refused for now; false if the refusal is its end."""
        ...


class Owner(Protocol):
    """Whose an execution is: a request's `RequestRuns`."""

    def take_answer(self, run: Run, outcome: Outcome, data: OutputBytes) -> None:
        """Take the answer to one of its executions."""
        ...


class Run(Latch):
    """One execution of a request, from its start until all who wait for it have been told: a latch that is set then.

    Attributes:
        holder: The queue that has its request; None where no queue has, or it was given back.
        position: The position of its request in that queue; -1 until it has one.
        is_direct: Whether user code began it, on a request of a queue's.
        callback: Called once it has succeeded, with its `argument`.
        argument: The user's data, or what else its callback is to be told.
        owner: Whose it is, weakly: what is under way does not keep a request that nobody else holds.
        on_end: Called when it has ended, successful or not, and gives its request back, or has that done. None where
            the call that started it does so itself.
        answer_latch: Set by the answer or a cancel, where a thread waits for the answer to store it itself.
        error: Why it has no outputs; raised by every wait.
        answer: The answer, until the thread that waits for it has stored it.
        began: When it was handed to the transport, as `time.perf_counter` has it.
        execution: What cancels it on the transport, while that has it.
        callback_thread: The thread that runs the callback now.
        pid: The process that began it.
        freight: What it takes to the server and leaves there, held so that the server keeps its part until the end.
    """

    # Attributes of the class, and not set for each: one is made for every inference, and few need these.
    position = -1
    is_direct = False
    callback: Callable[[Any], object] | None = None
    argument: Any = None
    owner: Callable[[], Owner | None]
    answer_latch: Latch | None = None
    error: RuntimeError | None = None
    answer: tuple[Outcome, OutputBytes] | None = None
    began = 0.0
    execution: Execution | None = None
    callback_thread: int | None = None
    freight: Freight | None = None

    def __init__(
        self,
        holder: Holder | None = None,
        on_end: Callable[[Run], object] | None = None,
        *,
        is_awaited: bool = False,
    ) -> None:
        self.holder = holder
        self.on_end = on_end
        if is_awaited:
            self.answer_latch = Latch()
        self.pid = THIS.pid

    def __repr__(self) -> str:
        return f"<Run: {'done' if self.is_set() else 'under way'}{', failed' if self.error else ''}>"

    def deliver(self, outcome: Outcome, data: OutputBytes) -> None:
        """Deliver its answer to its request, unless nobody holds that any more: the callback is then not called."""
        owner = self.owner()
        if owner is not None:
            owner.take_answer(self, outcome, data)

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
        if self.is_set():
            return
        if self.pid != THIS.pid:
            raise RuntimeError(FORKED)
        if sys.is_finalizing():
            raise RuntimeError(FINALIZING)

    def call_back(self) -> None:
        """Call back, and then conclude. What the callback raises is the business of those who wait."""
        self.callback_thread = threading.get_ident()
        callback, argument = self.callback, self.argument
        try:
            if callback is not None:
                callback(argument)
        except BaseException as error:  # noqa: BLE001 - raised again by every wait
            self.error = RuntimeError(_described(error))
        finally:
            self.callback_thread = None
            self.conclude()

    def conclude(self) -> None:
        """Release all who wait for the end, and what the execution needed, and tell whoever gives its request back.

        Its request keeps it, and what it calls may keep the request: a cycle that only garbage collection would free.
        """
        self.freight = self.callback = self.argument = None
        self.set()
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end(self)

    def give_back(self) -> None:
        """Give its request back to the queue that has it, if it has not been given back."""
        holder = self.holder
        if holder is not None:
            holder.give_back(self)

    def raise_error(self) -> None:
        """Raise what went wrong, if anything did."""
        if self.error is not None:
            raise anew(self.error)

    def stop(self) -> None:
        """Cancel it on the transport, and wake the thread that waits for its answer.

        A forked child leaves its parent's executions alone: they share a connection.
        """
        execution, self.execution = self.execution, None
        if execution is not None and self.pid == THIS.pid:
            execution.cancel()
        if self.answer_latch is not None:
            self.answer_latch.set()


def _described(error: BaseException) -> str:
    """Say what a callback raised and where, as openvino does."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    places = "\n".join(f"  {frame.filename}({frame.lineno}): {frame.name}" for frame in reversed(frames))
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - whatever a program's own error does
        text = "<exception str() failed>"  # as Python's own tracebacks have it
    return f"{type(error).__name__}: {text}\n\nAt:\n{places}\n"
