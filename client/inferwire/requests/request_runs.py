"""The executions of one request, one after another: `RequestRuns`.

Owns the steps of an execution (claim the request, bring the inputs in, send, take the answer, store it, call back), the
callback, and what the last execution left beside its outputs: times and profile. `request_state` decides when each step
may happen, and `infer_request` what users see of it.

Any step may raise, because a signal handler may run in it. The caller of the step then calls `give_up`.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from inferwire.errors import (
    Cancelled,
    InferwireError,
    ModelNotReady,
    QueueFull,
    SessionExpired,
    SessionLost,
    TensorLost,
    anew,
    closed_here,
    tensor_lost,
)
from inferwire.requests.awaiting import Handover
from inferwire.requests.callbacks import CALLBACK_THREADS
from inferwire.requests.inputs import bring_in
from inferwire.requests.kept_states import KeptStates
from inferwire.requests.remote_model import RemoteModel
from inferwire.requests.request_state import CANCELLED, RequestState
from inferwire.requests.request_tensors import RequestTensors
from inferwire.requests.run import Run
from inferwire.signal_handlers import is_a_handlers
from inferwire.transport.executions import ExecutionHeader, LayerTime, Outcome, OutputBytes, Timings
from inferwire.user_warnings import warn
from inferwire.values.scheduling import NORMAL, Scheduling

T = TypeVar("T")


class RequestRuns:
    """Runs the executions of a request.

    Attributes:
        states: The states that the server keeps for the request; None if the model has none.
        timings: Where the time of the last execution went, as the server saw it.
        elapsed_s: How long the last one took, as the client saw it.
        profile: What each layer took in the last one that was profiled.
        scheduling: How the next ones are scheduled.
        callback: Called after each execution that `start` began and that succeeded, unless it is None.
        userdata: What the callback is called with.
        hold: Set by a queue on its own requests. Called when user code starts one directly, so that the queue does not
            lend it meanwhile and reports its failure.
    """

    hold: Callable[[Run], object] | None = None

    def __init__(
        self, model: RemoteModel, state: RequestState, tensors: RequestTensors, states: KeptStates | None
    ) -> None:
        self.states = states
        self.timings = Timings()
        self.elapsed_s = 0.0
        self.profile: Sequence[LayerTime] = ()
        self.scheduling = NORMAL
        self.callback: Callable[[Any], object] | None = None
        self.userdata: Any = None
        self._model = model
        self._state = state
        self._tensors = tensors
        self._weakly = weakref.ref(self)

    def __repr__(self) -> str:
        return f"<RequestRuns of {self._model!r}: {self._state!r}>"

    def __del__(self) -> None:
        run = self._state.current if hasattr(self, "_state") else None
        if run is not None:
            run.stop()

    def schedule(self, scheduling: Scheduling) -> None:
        """Have the next executions scheduled like this."""
        self.scheduling = scheduling
        self._tensors.forget_freight()

    def start(self, run: Run, inputs: Any, share_inputs: bool, userdata: Any) -> None:
        """Send an execution, without waiting for its end, and have it call back."""
        try:
            header = self.prepare(run, inputs, share_inputs)
            self._bind_callback(run, userdata)
            self.submit(header, run)
        except BaseException as error:
            self.give_up(run, error)
            raise

    def infer(self, run: Run, inputs: Any, share_inputs: bool, results: Callable[[], T]) -> T:
        """Run an execution, wait for its end on the calling thread, and give its results.

        The results are read before a queue can lend the request to another call.
        """
        try:
            self.submit(self.prepare(run, inputs, share_inputs), run)
            self._receive(run)
            run.raise_error()
            found = results()
            run.give_back()
        except BaseException as error:
            self.give_up(run, error)
            raise
        return found

    async def infer_async(self, run: Run, inputs: Any, share_inputs: bool, results: Callable[[], T]) -> T:
        """Run an execution, await its end without blocking a thread, and give its results.

        The results are read before a queue can lend the request to another call.
        """
        ended = Handover[None]()
        run.on_end = partial(_tell, ended)
        try:
            header = self.prepare(run, inputs, share_inputs)
            freight = run.freight
            if (freight is None or not freight.fetches) and self._model.transport.is_ready(header):
                self.submit(header, run)
            else:
                await asyncio.to_thread(self._submit_apart, header, run)
            await ended.wait()
            run.raise_error()
            found = results()
            run.give_back()
        except GeneratorExit:
            # The task's loop has gone. Garbage collection may end the task at any point, even where this thread holds
            # the request's lock, so the execution is not given up here: it gives the request back at its end.
            ended.leave()
            if run.is_set():
                run.give_back()
            raise
        except BaseException as error:
            self.give_up(run, error)
            raise
        return found

    def prepare(self, run: Run, inputs: Any, share_inputs: bool) -> ExecutionHeader:
        """Make the request busy, take the inputs into its tensors and begin the execution."""
        if run.holder is None and self.hold is not None:
            self.hold(run)
        self._state.claim(run)
        tensors = self._tensors
        bring_in(inputs, tensors, share=share_inputs)
        run.freight = freight = tensors.freight(self._model.transport)
        header = freight.header
        if header is None:
            mark = None if self.states is None else self.states.mark()
            header = self._model.header(freight, mark, self.scheduling)
            if mark is None:
                freight.header = header
        self._state.begin(run)
        return header

    def submit(self, header: ExecutionHeader, run: Run) -> None:
        """Fetch the inputs that are on other servers, and hand the execution to the transport."""
        freight = run.freight
        if freight is None:
            # It was given up before its turn came.
            return
        if freight.fetches:
            freight.fetch()
            if run.is_set():
                # It was given up meanwhile.
                return
        try:
            # An execution in flight does not keep its request.
            deliver = partial(_deliver, self._weakly, run)
            run.began = began = perf_counter()
            submit = self._model.transport.submit
            execution = submit(header, freight.buffers, deliver, is_awaited=run.is_awaited)
        except (SessionLost, SessionExpired) as error:
            # It was not sent: its session has gone, and with it the states that the server kept for the request.
            if self.states is None:
                raise
            raise self.states.failed(error) from None
        if run.began == began:
            # Otherwise it was refused, and has been submitted again by now.
            run.execution = execution
        # A thread that ends the run then looks at `execution`. We set that and then look whether the run has ended, so
        # that one of us sees the other.
        if self._state.busy_with is not run or run.answer is not None:
            if run.error is not None:
                run.stop()
            run.execution = None

    def _submit_apart(self, header: ExecutionHeader, run: Run) -> None:
        """Submit on another thread. It gives the run up itself on failure, as the task may have gone with its loop."""
        try:
            self.submit(header, run)
        except BaseException as error:
            self.give_up(run, error)
            raise

    def take_answer(self, run: Run, outcome: Outcome, data: OutputBytes) -> None:
        """Take an answer, on a thread of the transport or one that waits. A call of `infer` does the rest itself."""
        if run.answer_latch is not None:
            if self._state.answer(run, outcome, data):
                run.answer_latch.set()
        elif outcome.error is not None and self._is_put_off(run, outcome.error):
            return
        elif self._state.finish(run, outcome, data, self._store):
            if run.error is None and run.callback is not None:
                CALLBACK_THREADS.run(run.call_back)
            else:
                run.conclude()
        elif run.is_awaited:
            # A signal handler may have raised on the thread that waits, just before it concluded the run.
            run.conclude()

    def give_up(self, run: Run, error: BaseException) -> None:
        """Make the request idle and wake every wait, after an error in any step of an execution.

        Calls no callback and reports the error nowhere: the caller of the step raises it.
        """
        self._state.give_up(run, _reason(error))
        run.on_end = None
        run.conclude()
        run.give_back()

    def wait(self, run: Run, timeout_s: float | None) -> bool:
        """Wait until an execution has ended and its callback returned; tell whether it has."""
        if timeout_s is None and run.callback_thread == threading.get_ident():
            raise RuntimeError("wait() inside the request's own callback would never return")
        with CALLBACK_THREADS.blocking():
            return run.await_end(timeout_s)

    def cancel(self) -> None:
        """Give up the execution that runs, if one does."""
        run, error = self._state.current, Cancelled(CANCELLED)
        if run is None:
            return
        try:
            if self._state.cancel(run, error):
                run.conclude()
        except BaseException:
            # No answer ends it any more.
            if run.error is error:
                run.stop()
                run.conclude()
                run.give_back()
            raise

    def _bind_callback(self, run: Run, userdata: Any) -> None:
        """Have an execution call back with this userdata, or with what was given before."""
        if self.callback is not None:
            if userdata is not None:
                self.userdata = userdata
            run.callback, run.argument = self.callback, self.userdata
        elif userdata is not None:
            warn("There is no callback function!", RuntimeWarning)

    def _receive(self, run: Run) -> None:
        """Wait for the answer on the calling thread, and finish the execution there."""
        with CALLBACK_THREADS.blocking():
            run.await_answer()
        if run.answer is not None:
            self._state.end(run, self._store(run, *run.answer))
            run.conclude()

    def _is_put_off(self, run: Run, error: InferwireError) -> bool:
        """Have the holder submit an execution again if the server refused it for now; tell whether it will."""
        # The server says when to try again for a model that is loading, but not for one that is unloading or gone.
        is_for_now = isinstance(error, QueueFull) or (isinstance(error, ModelNotReady) and error.retry_after_s)
        if run.holder is None or not is_for_now:
            return False
        run.execution = None
        return run.holder.put_off(run, error, partial(self._submit_again, run))

    def _submit_again(self, run: Run) -> None:
        """Hand an execution to the transport once more, its inputs still in the tensors. An error ends it."""
        freight = run.freight
        if freight is None:
            # It was given up meanwhile.
            return
        transport = self._model.transport
        if run.began <= transport.closed_at:
            # To submit it would open the connection again.
            self._fail(run, closed_here(transport.address))
            return
        try:
            self.submit(self._model.header(freight, scheduling=self.scheduling), run)
        except BaseException as error:  # noqa: BLE001 - raised by every wait
            self._fail(run, error)

    def _fail(self, run: Run, error: BaseException) -> None:
        """End an execution that is not submitted again. If it was cancelled meanwhile, it is concluded already."""
        if self._state.give_up(run, _reason(error)):
            run.conclude()

    def _store(self, run: Run, outcome: Outcome, data: OutputBytes) -> RuntimeError | None:
        forms, timings, came_at, error, profile = outcome
        if profile:
            self.profile = profile
        if error is not None:
            if isinstance(error, TensorLost):
                return tensor_lost(self._model.transport.address, error)
            return error if self.states is None else self.states.failed(error)
        if self.states is not None:
            self.states.succeeded()
        self.timings, self.elapsed_s = timings, came_at - run.began
        try:
            self._tensors.store(forms, data, run.freight)
        except RuntimeError as error:
            return error
        except ValueError as error:
            if is_a_handlers(error):
                raise
            return InferwireError(f"the server at {self._model.transport.address} gave a bad output: {error}")
        return None


def _deliver(weak_runs: Callable[[], RequestRuns | None], run: Run, outcome: Outcome, data: OutputBytes) -> None:
    """Have a request take an answer. If it is gone, drop the answer, and the callback is not called."""
    runs = weak_runs()
    if runs is not None:
        runs.take_answer(run, outcome, data)


def _reason(error: BaseException) -> RuntimeError:
    """Make the error that later waits for an execution raise."""
    if not isinstance(error, Exception):
        return Cancelled(CANCELLED)
    try:
        if isinstance(error, RuntimeError):
            return anew(error)
        return InferwireError(f"the inference did not come to its end: {error!r}")
    except Exception:  # noqa: BLE001 - a program's own error may raise as it is made anew or shown
        return InferwireError(f"the inference did not come to its end: {type(error).__name__}")


def _tell(ended: Handover[None], run: Run) -> None:
    """Wake the task that waits, which then gives the request back; if the task has gone, give it back here."""
    if not ended.give(None):
        run.give_back()
