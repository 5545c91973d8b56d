"""One execution of a request: `Run`.

Owns the order in which its end is reported: the callback runs, every wait is woken, and then `on_end` is called.
Whether its request is busy meanwhile is `request_state`'s business.

A request that belongs to a queue is given back last of all: by the call that waits for the end, once it has read the
results or, if no call waits, by the queue, once the callbacks have run.
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
    """The queue that an execution's request belongs to."""

    def give_back(self, run: Run) -> None:
        """Take the request back."""
        ...

    def put_off(self, run: Run, refusal: InferwireError, again: Callable[[], object]) -> bool:
        """Submit an execution again later that the server refused for now; return False if the refusal is its end."""
        ...


class Run(Latch):
    """One execution of a request: a latch that is set once it has ended and its callback has returned.

    Attributes:
        holder: The queue that its request belongs to; None if to none, or once the request was given back.
        position: The position of its request in that queue; -1 until it has one.
        is_direct: Whether user code started it itself, on a request of a queue.
        callback: Called once it has succeeded, with `argument`.
        argument: The user's data or, for a queue's callback, the request's position.
        on_end: Called when it has ended, successfully or not, to give its request back to the queue or have that done.
            None if the call that started it does so itself.
        answer_latch: Set by the answer or a cancel; None unless the call that started it waits for the answer and
            stores it itself.
        error: Why it has no outputs; raised by every wait.
        answer: The answer, until the thread that waits for it has stored it.
        began: When it was handed to the transport, as `time.perf_counter` has it.
        execution: Cancels it on the transport, while the transport has it.
        callback_thread: The thread that runs the callback now.
        pid: The process that began it.
        freight: What it takes to the server and leaves there, held until its end so that the server keeps it as long.
    """

    # On the class rather than set for each run, because every inference makes one and few need these.
    position = -1
    is_direct = False
    callback: Callable[[Any], object] | None = None
    argument: Any = None
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
        is_synchronous: bool = False,
    ) -> None:
        self.holder = holder
        self.on_end = on_end
        if is_synchronous:
            self.answer_latch = Latch()
        self.pid = THIS.pid

    def __repr__(self) -> str:
        return f"<Run: {'done' if self.is_set() else 'under way'}{', failed' if self.error else ''}>"

    @property
    def is_awaited(self) -> bool:
        """Whether only the threads that wait for it learn of its end: there is nothing to call then."""
        return self.callback is None and self.on_end is None

    def await_answer(self) -> None:
        """Block the call that stores the answer itself, until the answer is there or the run is cancelled."""
        if self.answer_latch is not None:
            if sys.is_finalizing():
                raise RuntimeError(FINALIZING)
            self._await(self.answer_latch, None)

    def await_end(self, timeout_s: float | None) -> bool:
        """Wait until it has ended and its callback has returned, at most for `timeout_s`; tell whether it has.

        Raises:
            RuntimeError: If no thread of this process will see its end: another process began it, or the interpreter
                shuts down.
        """
        if self.is_set():
            return True
        if self.pid != THIS.pid:
            raise RuntimeError(FORKED)
        if sys.is_finalizing():
            raise RuntimeError(FINALIZING)
        return self._await(self, timeout_s) if self.is_awaited else self.wait(timeout_s)

    def _await(self, latch: Latch, timeout_s: float | None) -> bool:
        """Wait for what its answer sets, perhaps by receiving the answer on the calling thread."""
        execution = self.execution
        if execution is None:
            return latch.wait(timeout_s)
        return execution.await_answer(latch, self.began, timeout_s)

    def call_back(self) -> None:
        """Call back, and then conclude. What the callback raises, every wait raises."""
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
        """Wake every wait for the end, drop what the execution needed, and call `on_end`.

        Its request keeps the run, and the callback may keep the request: only garbage collection would free that cycle.
        """
        self.freight = self.callback = self.argument = None
        self.set()
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end(self)

    def give_back(self) -> None:
        """Give its request back to the queue that it belongs to, unless it was given back before."""
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
    """Say what a callback raised and where, as openvino does: from Python 3.12 on, with its notes beside its type."""
    kind = type(error).__name__
    try:
        text = str(error) or "<EMPTY MESSAGE>"
        notes: list[str] | None = getattr(error, "__notes__", None)
        if notes is not None:
            text = "\n".join((text, f"__notes__ (len={len(notes)}):", *notes))
            kind += "[WITH __notes__]" if sys.version_info >= (3, 12) else ""
    except Exception:  # noqa: BLE001 - whatever a program's own error does
        text = "<exception str() failed>"  # as Python's own tracebacks have it
    frames = traceback.extract_tb(error.__traceback__)[1:]
    places = "".join(f"  {frame.filename}({frame.lineno}): {frame.name}\n" for frame in reversed(frames))
    return f"{kind}: {text}\n" + (f"\nAt:\n{places}" if places else "")
