"""Many inferences at once, as openvino's users know them: `AsyncInferQueue`.

Owns the interface. Which request is idle is `job_pool`'s business, how a job's end is reported `job_endings`', and what
a request does `infer_request`'s.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from typing import Any, SupportsIndex

from inferwire.arguments import Unpicklable, as_size, incompatible, position
from inferwire.models.compiled_model import CompiledModel
from inferwire.queues.job_endings import Callback, ErrorCallback
from inferwire.queues.job_pool import JobPool
from inferwire.queues.ordered_results import results_in_order
from inferwire.requests.infer_request import InferRequest
from inferwire.requests.ov_dict import OVDict
from inferwire.requests.run import Run
from inferwire.user_warnings import shares_inputs

FEWEST_JOBS = 8
"""The fewest jobs of a queue that is not told how many. Measured with a tiny model on two cores: four leave the
server waiting for the wire, sixteen gather no more into a message than eight."""

FEWEST_BATCHED_JOBS = 64
"""The same for a model that runs the rows of many executions as one inference: one more job costs next to nothing.
Measured likewise: an inference took 82 us of both sides' CPU time with 16 jobs, 31 with 64 and 20 with 256."""

JOBS_PER_INFERENCE = 2
"""One job that runs and one on its way, for each inference that the device computes at once."""


class AsyncInferQueue(Unpicklable):
    """Runs inferences on a pool of requests of one model. Mirrors `openvino.AsyncInferQueue`.

    Differs from OpenVINO:
    - Without `jobs` there are twice `CompiledModel.optimal_number_of_infer_requests`, and at least 8, to hide the
      network, or 64 if the server runs many executions as one inference.
    - An error is raised once, by the next call that asks, and then forgotten, with every request back in the pool; or
      the callback of `set_error_callback` gets it.
    - A job that the server refuses, since its queue is full or the model is loading, is started again, unless the model
      keeps states.
    - Callbacks get an `InferRequest`.
    - An index past the end is an IndexError.

    Example:
        >>> queue = AsyncInferQueue(compiled, jobs=8)
        >>> queue.set_callback(lambda request, index: print(index, request.results[0].argmax()))
        >>> for index, image in enumerate(images):
        ...     queue.start_async({0: image}, userdata=index)
        >>> queue.wait_all()

    Args:
        model: The model to run.
        jobs: How many requests there are; 0 for as many as keep the server's device busy.

    Raises:
        TypeError: For what is no compiled model or no such number.
    """

    def __init__(self, model: CompiledModel, jobs: SupportsIndex = 0) -> None:
        count = as_size(jobs)
        if not isinstance(model, CompiledModel) or count is None:  # pyright: ignore[reportUnnecessaryIsInstance]
            signature = "AsyncInferQueue(model: CompiledModel, jobs: int = 0)"
            raise incompatible("__init__", signature, invoked=(model, jobs))
        count = count or _jobs_for(model)
        self._pool = JobPool([model.create_infer_request() for _ in range(count)])
        self._endings = self._pool.endings

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} jobs>"

    def __len__(self) -> int:
        return len(self._pool.requests)

    def __iter__(self) -> Iterator[InferRequest]:
        return iter(self._pool.requests)

    def __getitem__(self, i: SupportsIndex) -> InferRequest:
        return self._pool.requests[position("__getitem__", self, i, len(self))]

    @property
    def userdata(self) -> list[Any]:
        """What each request was last given; None if nothing. Mirrors `openvino.AsyncInferQueue.userdata`."""
        return list(self._endings.userdata)

    def is_ready(self) -> bool:
        """Tell whether a request is idle, so that `start_async` does not wait.

        Mirrors `openvino.AsyncInferQueue.is_ready`.
        """
        return self._pool.has_idle

    def get_idle_request_id(self) -> int:
        """Wait until a request is idle and give its position. It is not reserved.

        Mirrors `openvino.AsyncInferQueue.get_idle_request_id`.

        Raises:
            BaseException: The first error that no call has raised yet, as `wait_all`.
        """
        return self._pool.first_idle()

    def set_callback(self, callback: Callback) -> None:
        """Have `callback(request, userdata)` called after each inference that succeeded.

        Mirrors `openvino.AsyncInferQueue.set_callback`. Callbacks run on threads of the SDK.

        Raises:
            TypeError: For what cannot be called.
            RuntimeError: While a request is busy.
        """
        if not callable(callback):
            signature = "(self: AsyncInferQueue, arg0: Callable) -> None"
            raise incompatible("set_callback", signature, invoked=(self, callback))
        self._pool.check_idle()
        self._endings.on_done = callback

    def set_error_callback(self, callback: ErrorCallback) -> None:
        """Have `callback(request, userdata, error)` called after each inference that failed; not in openvino.

        `start_async` and `wait_all` then raise none of these errors, so that each inference that was started ends in
        one callback or the other. It runs where the other callbacks do, and may start inferences again.

        Example:
            >>> failed = {}
            >>> queue.set_error_callback(lambda request, index, error: failed.update({index: error}))

        Raises:
            TypeError: For what cannot be called.
            RuntimeError: While a request is busy.
        """
        if not callable(callback):
            signature = "(self: AsyncInferQueue, callback: Callable) -> None"
            raise incompatible("set_error_callback", signature, invoked=(self, callback))
        self._pool.check_idle()
        self._endings.on_failed = callback

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
            BaseException: The first error that no call has raised yet, as `wait_all`; nothing is started then.
        """
        share = shares_inputs(share_inputs, shared_memory)
        pool = self._pool
        run = Run(pool, pool.ended)
        try:
            at = pool.take(run)
            if self._endings.on_done is not None:
                run.callback, run.argument = self._endings.succeeded, at
            runs = pool.runs[at]
            header = runs.prepare(run, inputs, share)
            self._endings.userdata[at] = userdata
            runs.submit(header, run)
        except BaseException as error:
            pool.give_up(run, error)
            raise

    async def infer_async(self, inputs: Any = None, share_inputs: bool = False) -> OVDict:
        """Run an inference on the next idle request and give its results, for asyncio; not in openvino.

        Any number of tasks, of any number of event loops, may await it at once: as many inferences as the
        queue has jobs are in flight, and the others wait their turn without blocking a thread. An error is
        raised here and not by `wait_all`, the callback is not called, and cancelling the task cancels the
        inference.

        Example:
            >>> queue = AsyncInferQueue(compiled)
            >>> all_results = await asyncio.gather(*(queue.infer_async({0: image}) for image in images))

        Args:
            inputs: As in `InferRequest.infer`.
            share_inputs: As in `InferRequest.start_async`.

        Raises:
            TypeError: As `InferRequest.infer`.
            RuntimeError: As `InferRequest.infer`.
        """
        pool = self._pool
        run = Run(pool)
        try:
            at = await pool.take_in_turn(run)
            return await pool.runs[at].infer_async(run, inputs, share_inputs, lambda: pool.requests[at].results)
        except GeneratorExit:
            # The task's loop has gone. An execution in flight gives the request back at its end.
            raise
        except BaseException:
            run.give_back()
            raise

    def map_async(self, inputs: Iterable[Any] | AsyncIterable[Any]) -> AsyncGenerator[OVDict]:
        """Run an inference on each of the inputs and yield the results in their order; not in openvino.

        Inputs are taken only as jobs become free and results are taken, so they may be endless. An error of the
        inputs, or of an inference, comes after the results before it. It ends the loop; then, and when the loop is
        left early, inferences in flight are cancelled, and a generator that gives the inputs is closed.

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
            RuntimeError: If an inference failed or was cancelled, and no call has raised an error since.
            BaseException: What a callback raised, likewise. Of several errors the first is raised.
        """
        self._pool.wait_all()


def _jobs_for(model: CompiledModel) -> int:
    fewest = FEWEST_BATCHED_JOBS if model.max_batch_rows else FEWEST_JOBS
    return max(JOBS_PER_INFERENCE * model.optimal_number_of_infer_requests, fewest)
