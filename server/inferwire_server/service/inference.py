"""Running inferences: what is admitted, and what becomes of it until it has ended or the server is drained."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from inferwire_proto.errors import Code
from inferwire_server.core.callers import Caller
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.scheduling.outlet import Outlet
from inferwire_server.core.sessions import Session
from inferwire_server.core.states import StateAccess, WriteStates
from inferwire_server.core.tensors import LARGE, Tensor
from inferwire_server.engine.engine import Engine, Submission
from inferwire_server.engine.models import Model, model_of
from inferwire_server.errors import ServingError, invalid_input, shutting_down
from inferwire_server.service.busy_polling import BusyPolling
from inferwire_server.service.models import ModelService
from inferwire_server.service.output_forms import transforms_of
from inferwire_server.service.sequences import Sequences
from inferwire_server.service.shared_memory import SharedMemoryService
from inferwire_server.service.tensors import TensorService
from inferwire_server.service.values import Inference, LentTensor, SequenceCall, SharedTensor, StoredTensor, Target

_SIMPLY: AbstractContextManager[None] = nullcontext()


class Prepared(NamedTuple):
    """Executions that are checked and become one job when they are submitted."""

    model: Model
    submission: Submission

    @property
    def executions(self) -> int:
        """How many they are."""
        return self.submission.work.executions


class InferenceService:
    """Admits inferences, until it is drained."""

    def __init__(
        self,
        engine: Engine,
        models: ModelService,
        sequences: Sequences,
        tensors: TensorService,
        shared_memory: SharedMemoryService,
        polling: BusyPolling,
    ) -> None:
        self._engine = engine
        self._models = models
        self._sequences = sequences
        self._tensors = tensors
        self._shared_memory = shared_memory
        self._polling = polling
        self._in_flight: set[Job] = set()
        self._idle = asyncio.Event()
        self._draining = False

    def __repr__(self) -> str:
        state = "draining" if self._draining else "open"
        return f"<InferenceService: {state}, {len(self._in_flight)} in flight>"

    @property
    def polled_s(self) -> float:
        """For how many seconds the event loop has looked for the next inference instead of sleeping."""
        return self._polling.polled_s

    def submit(
        self,
        inference: Inference,
        on_end: Callable[[Job], Any],
        received_at: float | None = None,
        caller: Caller | None = None,
        outlet: Outlet | None = None,
        *,
        at_once: bool = False,
        is_named: bool = False,
    ) -> Job:
        """Queue an inference. `on_end` is called on the loop, once, after this call has returned.

        With `at_once` it may be called before, if the inference is brief. The result of an inference that `is_named` is
        kept for long, and not only until it is answered. A transport that knows when the request was read, by the
        monotonic clock, gives `received_at` and calls `answered` later. Inferences of different callers take turns, and
        those whose answers go out by a clogged `outlet` have none.

        Raises:
            ServingError: If the model, the inputs or the queue do not allow it.
        """
        self._require_open()
        prepared = self._prepared(inference, received_at, caller, outlet, is_named=is_named)
        wanted = inference.wanted
        if wanted.keeps:
            on_end = self._keeping(wanted.keeps, on_end)
        read = [given for _, given in inference.inputs if isinstance(given, StoredTensor)]
        if not read:
            return self._submit(prepared, wanted.sequence, on_end, at_once=at_once)
        with self._tensors.read_until_end(read, on_end) as on_end:
            return self._submit(prepared, wanted.sequence, on_end, at_once=at_once)

    def prepare_stack(
        self,
        stack: Inference,
        received_at: float | None = None,
        caller: Caller | None = None,
        outlet: Outlet | None = None,
    ) -> list[Prepared]:
        """Check several executions at once, and divide them into single jobs.

        Raises:
            ServingError: If something is wrong with one of them, without saying which. `submit` would say it of each.
        """
        self._require_open()
        model, submission = self._prepared(stack, received_at, caller, outlet)
        works = model.device.divide(model, submission.work)
        return [Prepared(model, submission._replace(work=work)) for work in works]

    def submit_prepared(self, prepared: Prepared, on_end: Callable[[Job], Any]) -> Job:
        """Queue executions of a stack as one job. `on_end` is called on the loop, once, after this call has returned.

        Raises:
            ServingError: If the queue does not allow it.
        """
        self._require_open()
        return self._submit(prepared, None, on_end)

    async def access_states(self, target: Target, sequence: SequenceCall, states: StateAccess) -> Job:
        """Read, write or reset the states of a sequence, behind what was submitted to it before; give the ended job.

        Raises:
            ServingError: INVALID_INPUT for a model without states, for names of none or of one twice, and for values
                that they cannot have; SEQUENCE_NOT_FOUND; what became of it later is in the job.
        """
        model = self._keeping_states(target, states)
        if isinstance(states, WriteStates):
            if sum([tensor.byte_size for _, tensor in states.values]) > LARGE:
                await asyncio.to_thread(model.spec.check_states, states.values)
                # It may have been loaded anew meanwhile.
                model = self._keeping_states(target, states)
            else:
                model.spec.check_states(states.values)
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        prepared = Prepared(model, Submission(Work((), (), states), model.options.priority))
        job = self._submit(prepared, sequence, lambda _: end.done() or end.set_result(None))
        return await self._until_end(job, end)

    def release_sequences(self, session: Session, ids: Sequence[int]) -> None:
        """End sequences of a session when their last jobs have ended; pass over those that are not under way."""
        self._sequences.release(session, ids)

    def drop(self, job: Job, index: int, reason: str) -> None:
        """Cancel one execution of a job; the job ends when all are cancelled. Do nothing for one that has ended."""
        model_of(job).device.drop(job, index, ServingError(Code.CANCELLED, reason))

    def cancel(self, job: Job, reason: str) -> None:
        """Cancel a job, queued or running; do nothing for one that has ended."""
        model_of(job).device.cancel(job, ServingError(Code.CANCELLED, reason))

    def answered(self, job: Job, executions: int = 1) -> None:
        """Record that the answers to so many of an ended job's executions are written."""
        self._engine.answered(job, executions)

    async def infer(
        self,
        inference: Inference,
        received_at: float | None = None,
        caller: Caller | None = None,
        outlet: Outlet | None = None,
        waiting: AbstractContextManager[None] = _SIMPLY,
    ) -> Job:
        """Run an inference to its end. Cancelling this call cancels the inference.

        If it does not end at once, this waits for it inside `waiting`.

        Raises:
            ServingError: If it was not admitted; what became of it later is in the job.
        """
        end: asyncio.Future[None] | None = None

        def wake(_: Job) -> None:
            if end is not None and not end.done():
                end.set_result(None)

        job = self.submit(inference, wake, received_at, caller, outlet, at_once=True)
        if job.state.is_terminal:
            return job
        end = asyncio.get_running_loop().create_future()
        return await self._until_end(job, end, waiting)

    async def drain(self, grace_s: float) -> int:
        """Admit nothing more, wait for what is in flight, cancel what is left; give how many executions those were."""
        self._draining = True
        if not self._in_flight:
            return 0
        try:
            async with asyncio.timeout(grace_s):
                await self._idle.wait()
        except TimeoutError:
            left, error = tuple(self._in_flight), shutting_down()
            for job in left:
                model_of(job).device.cancel(job, error)
            return sum(job.work.executions for job in left)
        return 0

    def _prepared(
        self,
        inference: Inference,
        received_at: float | None,
        caller: Caller | None,
        outlet: Outlet | None,
        *,
        is_named: bool = False,
    ) -> Prepared:
        """Find the model and put the inputs into its order."""
        wanted, given, executions = inference
        timeout_s = wanted.timeout_s
        if timeout_s is not None and not timeout_s >= 0:
            raise invalid_input(f"the time limit is {timeout_s} seconds, expected 0 or more")
        model = self._models.resolve(wanted.target)
        spec = model.spec
        if wanted.signature and wanted.signature != spec.signature:
            raise invalid_input(
                f"model '{spec.name}' was reloaded with other inputs or outputs: get it again (served_model, GetModel)"
            )
        carried_bytes = sum([_own_bytes(tensor) for _, tensor in given])
        # A generator: bringing in an input may copy it, which is not to happen once an input before it was refused.
        inputs = spec.arrange(
            ((key, tensor if isinstance(tensor, Tensor) else self._bring_in(tensor)) for key, tensor in given),
            executions,
        )
        outputs = spec.select(wanted.outputs)
        transforms = transforms_of(model, outputs, wanted.forms, self._shared_memory) if wanted.forms else ()
        if wanted.check_outputs is not None:
            wanted.check_outputs(spec, outputs)
        work = Work(
            inputs,
            outputs,
            is_profiled=wanted.is_profiled,
            transforms=transforms,
            executions=executions,
            copied=outputs if is_named else wanted.keeps,
            carried_bytes=carried_bytes,
        )
        options = model.options
        if timeout_s is None:
            timeout_s = options.time_limit_s
        submission = Submission(work, wanted.priority or options.priority, timeout_s, None, received_at, caller, outlet)
        return Prepared(model, submission)

    def _keeping_states(self, target: Target, states: StateAccess) -> Model:
        """Find a model that keeps the states of these names."""
        self._require_open()
        model = self._models.resolve(target)
        if not model.spec.states:
            raise invalid_input(f"model '{model.name}' keeps no states")
        model.spec.check_state_names(states.names)
        return model

    def _bring_in(self, given: StoredTensor | LentTensor | SharedTensor) -> Tensor:
        """Look up an input that the call names and does not carry."""
        return self._shared_memory.tensor(given) if isinstance(given, SharedTensor) else self._tensors.tensor(given)

    def _submit(
        self, prepared: Prepared, sequence: SequenceCall | None, on_end: Callable[[Job], Any], *, at_once: bool = False
    ) -> Job:
        model, submission = prepared
        if not self._in_flight:
            self._polling.begin()

        def count_out_and_tell(job: Job) -> None:
            self._in_flight.discard(job)
            if not self._in_flight:
                self._polling.rest()
                if self._draining:
                    self._idle.set()
            on_end(job)

        if sequence is None or not model.spec.states:
            job = self._engine.submit(model, submission, count_out_and_tell, at_once=at_once)
        else:
            with self._sequences.joined(model, sequence) as binding:
                job = self._engine.submit(model, submission._replace(binding=binding), count_out_and_tell)
        if not job.state.is_terminal:
            self._in_flight.add(job)
        return job

    def _keeping(self, keeps: Mapping[int, StoredTensor], on_end: Callable[[Job], Any]) -> Callable[[Job], Any]:
        def keep_and_tell(job: Job) -> None:
            self._tensors.keep_outputs(job, keeps)
            on_end(job)

        return keep_and_tell

    async def _until_end(
        self, job: Job, end: asyncio.Future[None], waiting: AbstractContextManager[None] = _SIMPLY
    ) -> Job:
        try:
            with waiting:
                await end
        except BaseException:
            self.cancel(job, "the caller has gone")
            raise
        return job

    def _require_open(self) -> None:
        if self._draining:
            raise shutting_down()


def _own_bytes(given: Tensor | StoredTensor | LentTensor | SharedTensor) -> int:
    """Say how many bytes of an input are in memory for its job alone: what came with the call, and copies."""
    if isinstance(given, Tensor):
        return given.byte_size
    return given.place.byte_size if isinstance(given, SharedTensor) and given.is_copied else 0
