"""A pool of requests that run inferences as they come: `AsyncInferQueue`.

Owns which request is idle and what went wrong since somebody last asked. What a request does is
`infer_request`'s business.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from inferwire.arguments import as_size, incompatible, position
from inferwire.awaiting import Handover
from inferwire.callbacks import CALLBACK_THREADS
from inferwire.compiled_model import CompiledModel
from inferwire.infer_request import InferRequest
from inferwire.names_of_2023 import shares_inputs
from inferwire.ordered_results import results_in_order
from inferwire.ov_dict import OVDict
from inferwire.process import THIS
from inferwire.request_state import BUSY, FORKED, Run

FEWEST_JOBS = 8
"""Jobs of a queue that is not told how many, at least. Measured with a tiny model on two cores: four leave the
server waiting for the wire, sixteen gather no more into a message than eight."""

FEWEST_BATCHED_JOBS = 64
"""The same, of a model that runs the rows of many executions as one inference: then a job more costs next to nothing.
Measured likewise: an inference took 136 us of both sides' CPU time with 16 jobs, 65 with 64 and 62 with 256."""

_NOBODY = sys.maxsize
"""How many requests have to be idle for those who wait, where nobody does."""

JOBS_PER_SLOT = 2
"""One that runs and one on its way, for each inference that the server runs at once."""


class AsyncInferQueue:
    """Runs inferences on a pool of requests of one model. Mirrors `openvino.AsyncInferQueue`.

    Differs from OpenVINO: without `jobs` there are two for each inference the server runs at once, and at
    least 8, to hide the network, or 64 where the server runs many executions as one inference; an index past
    the end is an IndexError; an error is raised once, by the next call that asks, and then forgotten, with
    every request back in the pool; callbacks get an `InferRequest`.

    Example:
        >>> queue = AsyncInferQueue(compiled, jobs=8)
        >>> queue.set_callback(lambda request, index: print(index, request.results[0].argmax()))
        >>> for index, image in enumerate(images):
        ...     queue.start_async({0: image}, userdata=index)
        >>> queue.wait_all()

    Args:
        model: The model to run.
        jobs: How many requests there are; 0 for as many as keep the server busy.

    Raises:
        TypeError: For what is no compiled model or no such number.
    """

    def __init__(self, model: CompiledModel, jobs: int = 0) -> None:
        count = as_size(jobs)
        if not _is_compiled_model(model) or count is None:
            signature = "AsyncInferQueue(model: CompiledModel, jobs: int = 0)"
            raise incompatible("__init__", signature, invoked=(model, jobs))
        count = count or _jobs_for(model)
        self._requests = [model.create_infer_request() for _ in range(count)]
        self._userdata: list[Any] = [None] * count
        self._callback: Callable[[InferRequest, Any], object] | None = None
        self._call_backs = [partial(self._call_back, at) for at in range(count)]
        self._ends = [partial(self._ended, at) for at in range(count)]
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._enough = _NOBODY
        self._idle = deque(range(count))
        self._error: BaseException | None = None
        self._pid = THIS.pid
        self._turns: deque[Handover[int]] = deque()

    def __repr__(self) -> str:
        return f"<AsyncInferQueue: {len(self)} jobs>"

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[InferRequest]:
        return iter(self._requests)

    def __getitem__(self, i: int) -> InferRequest:
        return self._requests[position("__getitem__", self, i, len(self))]

    @property
    def userdata(self) -> list[Any]:
        """What each request was last given; None where nothing."""
        return list(self._userdata)

    def is_ready(self) -> bool:
        """Tell whether a request is idle, so that `start_async` does not wait."""
        return bool(self._idle)

    def get_idle_request_id(self) -> int:
        """Wait until a request is idle and give its position. It is not reserved.

        Raises:
            BaseException: What went wrong since somebody last asked, as `wait_all`.
        """
        return self._wait_for_idle(lambda: self._idle[0])

    def set_callback(self, callback: Callable[[InferRequest, Any], object]) -> None:
        """Have `callback(request, userdata)` called after each inference that succeeded.

        Mirrors `openvino.AsyncInferQueue.set_callback`. Callbacks run on threads of the SDK.

        Raises:
            TypeError: For what cannot be called.
            RuntimeError: While a request is busy.
        """
        if not callable(callback):
            signature = "(self: AsyncInferQueue, arg0: Callable) -> None"
            raise incompatible("set_callback", signature, invoked=(self, callback))
        with self._changed:
            if len(self._idle) < len(self):
                raise RuntimeError(BUSY)
            self._callback = callback

    def start_async(
        self,
        inputs: Any = None,
        userdata: Any = None,
        share_inputs: bool = False,
        *,
        shared_memory: bool | None = None,
    ) -> None:
        """Start an inference on the next idle request, waiting for one.

        Mirrors `openvino.AsyncInferQueue.start_async`.

        Args:
            inputs: As in `InferRequest.infer`.
            userdata: What the callback is given.
            share_inputs: As in `InferRequest.start_async`.
            shared_memory: What `share_inputs` was until 2023. Deprecated.

        Raises:
            TypeError: For inputs of kinds that are not taken.
            RuntimeError: If inputs do not fit or no server answers.
            BaseException: What went wrong since somebody last asked, as `wait_all`.
        """
        share = share_inputs if shared_memory is None else shares_inputs(share_inputs, shared_memory)
        at = self._take_idle()
        previous = self._userdata[at]
        self._userdata[at] = userdata
        run = Run(None if self._callback is None else self._call_backs[at], self._ends[at])
        try:
            self._requests[at].start_in_pool(inputs, share, run)
        except BaseException:
            self._userdata[at] = previous
            self._give_back(at)
            raise

    async def infer_async(self, inputs: Any = None, share_inputs: bool = False) -> OVDict:
        """Run an inference on the next idle request and give its results, for asyncio; not in openvino.

        Any number of tasks, of any number of event loops, may await it at once: as many inferences as the
        queue has jobs are in flight, the others wait their turn, and no thread does. What fails is raised
        here and not by `wait_all`, the callback is not called, and cancelling the task cancels the
        inference.

        Example:
            >>> queue = AsyncInferQueue(compiled)
            >>> all_results = await asyncio.gather(*(queue.infer_async({0: image}) for image in images))

        Raises:
            TypeError: As `InferRequest.infer`.
            RuntimeError: As `InferRequest.infer`.
        """
        at = await self._await_idle()
        try:
            return await self._requests[at].infer_async(inputs, share_inputs)
        finally:
            self._give_back(at)

    def map_async(self, inputs: Iterable[Any] | AsyncIterable[Any]) -> AsyncGenerator[OVDict]:
        """Run an inference on each of the inputs and yield the results in their order; not in openvino.

        Inputs are taken as jobs become free and results are, so that they may be endless. An error of theirs, or
        of an inference, comes after the results before it. It ends the loop, and so does leaving it: what is in
        flight is cancelled, and a generator that gives the inputs is closed.

        Example:
            >>> async for results in queue.map_async({0: image} for image in images):
            ...     print(results[0].argmax())

        Args:
            inputs: What `infer_async` takes, from an iterable or an asynchronous one.

        Raises:
            TypeError: As `InferRequest.infer`.
            RuntimeError: As `InferRequest.infer`.
        """
        return results_in_order(self.infer_async, inputs, len(self))

    def wait_all(self) -> None:
        """Wait until all requests are idle.

        Mirrors `openvino.AsyncInferQueue.wait_all`.

        Raises:
            RuntimeError: If an inference failed or was cancelled since somebody last asked.
            BaseException: What a callback raised since then.
        """
        with CALLBACK_THREADS.blocking(), self._changed:
            self._wait_until_idle(len(self))
            self._raise_error()

    def _take_idle(self) -> int:
        # Several may take one at once, and the lock is only for those that have to wait for it.
        if self._error is None and self._idle:
            try:
                return self._idle.popleft()
            except IndexError:
                pass
        return self._wait_for_idle(self._idle.popleft)

    def _wait_for_idle(self, take: Callable[[], int]) -> int:
        with CALLBACK_THREADS.blocking(), self._changed:
            while True:
                self._wait_until_idle(1)
                self._raise_error()
                with suppress(IndexError):
                    return take()

    def _wait_until_idle(self, count: int) -> None:
        """Wait until so many requests are idle, unless only the process that forked this one would see it."""
        if self._pid != THIS.pid and len(self._idle) < count:
            raise RuntimeError(FORKED)
        while True:
            # Whoever gives one back looks at this afterwards, and we look at what is idle: one of us sees the other.
            self._enough = min(self._enough, count)
            if len(self._idle) >= count:
                return
            self._changed.wait()

    async def _await_idle(self) -> int:
        """Take an idle request once there is one; whoever asked first is first."""
        if not self._turns:
            with suppress(IndexError):
                return self._idle.popleft()
        turn = Handover[int](self._give_back)
        self._turns.append(turn)
        self._hand_out()
        return await turn.wait()

    def _give_back(self, at: int) -> None:
        self._idle.append(at)
        if self._turns or len(self._idle) >= self._enough:
            self._hand_out()

    def _hand_out(self) -> None:
        """Give what is idle to the tasks that wait for it, and wake the threads for which it is enough."""
        with self._changed:
            while self._turns and self._idle:
                at = self._idle.popleft()
                if not self._turns.popleft().give(at):
                    self._idle.append(at)
            if len(self._idle) >= self._enough:
                # Those for whom it is not say again for how many they wait.
                self._enough = _NOBODY
                self._changed.notify_all()

    def _ended(self, at: int, run: Run) -> None:
        if run.error is not None:
            self._note(run.error)
        self._give_back(at)

    def _note(self, error: BaseException) -> None:
        """Keep what went wrong first for whoever asks next."""
        with self._lock:
            self._error = self._error or error

    def _call_back(self, at: int) -> None:
        """Run the user's callback; what it raises is kept for whoever asks next, with its type."""
        try:
            if self._callback is not None:
                self._callback(self._requests[at], self._userdata[at])
        except BaseException as error:  # noqa: BLE001 - raised again by the next call that asks
            self._note(error)

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


def _jobs_for(model: CompiledModel) -> int:
    fewest = FEWEST_BATCHED_JOBS if model.max_batch_rows else FEWEST_JOBS
    return max(JOBS_PER_SLOT * model.optimal_number_of_infer_requests, fewest)


def _is_compiled_model(value: object) -> bool:
    return isinstance(value, CompiledModel)
