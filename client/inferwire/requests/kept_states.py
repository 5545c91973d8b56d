"""The states that a server keeps for one request: the one thing of a request that is not local.

Owns whether the server holds states for the request, and whether they are still those that its inferences left. After
the answer to an inference, or to a change of them, was lost they count as lost, because that may or may not have
happened.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TypeVar

from inferwire.errors import AnswerLost, InferwireError, ServerUnavailable, SessionExpired, SessionLost, TooLarge, anew
from inferwire.requests.remote_model import RemoteModel
from inferwire.requests.state_reads import StateReads
from inferwire.tensors.dense_memory import allocate
from inferwire.tensors.tensor import Tensor
from inferwire.transport.descriptions import StateValue
from inferwire.transport.executions import SequenceMark

T = TypeVar("T")


class KeptStates:
    """A request's sequence on the server, which begins with its first use."""

    def __init__(self, model: RemoteModel) -> None:
        self._model = model
        self._id = model.transport.states.new_id()
        self._is_started = False
        self._lost: SessionLost | None = None
        self._reads = StateReads()
        weakref.finalize(self, model.transport.states.release, self._id).atexit = False

    def __repr__(self) -> str:
        return f"<KeptStates {self._id}: {'lost' if self._lost else 'kept' if self._is_started else 'fresh'}>"

    def mark(self) -> SequenceMark:
        """Say which sequence the next inference or change belongs to; what was read before it no longer counts.

        Raises:
            SessionLost: If the server has lost the states.
        """
        self._reads = self._reads.after_change()
        return self._sequence()

    def _sequence(self) -> SequenceMark:
        if self._lost is not None:
            raise anew(self._lost)
        return SequenceMark(self._id, is_start=not self._is_started)

    def succeeded(self) -> None:
        """Record that the server keeps the states that a call left."""
        self._is_started = True

    def failed(self, error: InferwireError) -> InferwireError:
        """Record that an inference or a change of states failed, and give the error to raise."""
        if not self._is_started:
            return error
        if isinstance(error, SessionLost | SessionExpired):
            self._lost = self._loss(f"the server no longer has them ({error})")
        elif isinstance(error, ServerUnavailable):
            self._lost = self._loss(f"an answer was lost ({error})")
        return error if self._lost is None else anew(self._lost)

    def read(self, name: str) -> Tensor:
        """Give a copy of a state, fetched along with those that the program read with it after the last change."""
        self._sequence()
        # Another thread may change the states meanwhile, after which `_reads` is another object.
        reads = self._reads
        value = reads.take(name)
        if value is None:
            value, *others = self._fetched(name, reads)
            reads.keep(others)
        reads.note(value)
        memory = allocate(value.element_type, value.shape)
        memory.load_wire(value.shape, value.data)
        return Tensor.over(memory)

    def _fetched(self, name: str, reads: StateReads) -> Sequence[StateValue]:
        """Fetch a state and others, or it alone where they have grown since then and no longer fit together."""
        names = reads.names_with(name)
        try:
            return self._get(names)
        except TooLarge:
            if len(names) == 1:
                raise
            reads.expect_none()
            return self._get(names[:1])

    def _get(self, names: Sequence[str]) -> Sequence[StateValue]:
        states, target = self._model.transport.states, self._model.target
        return self._call(lambda mark: states.get(target, mark, names), changes=False)

    def write(self, name: str, tensor: Tensor) -> None:
        """Replace a state."""
        memory = tensor.memory
        value = StateValue(name, memory.element_type, memory.shape, memory.wire_data())
        self._call(lambda mark: self._model.transport.states.set(self._model.target, mark, (value,)))

    def reset(self, *names: str) -> None:
        """Make the named states fresh, or all, after which their loss is no error any more.

        All become so with the next call, which begins the sequence anew: that takes no call of its own.
        """
        if not names:
            self._reads = self._reads.after_change()
            self._lost, self._is_started = None, False
        elif self._is_started:
            self._call(lambda mark: self._model.transport.states.reset(self._model.target, mark, names))

    def _call(self, call: Callable[[SequenceMark], T], *, changes: bool = True) -> T:
        mark = self.mark() if changes else self._sequence()
        try:
            answer = call(mark)
        except AnswerLost as error:
            if changes:
                raise self.failed(error) from None
            raise ServerUnavailable(str(error)) from error
        except ServerUnavailable:
            # The states are what they were.
            raise
        except InferwireError as error:
            raise self.failed(error) from None
        self.succeeded()
        return answer

    def _loss(self, reason: str) -> SessionLost:
        return SessionLost(
            f"the states of this request of model '{self._model.description.name}' on {self._model.transport.address} "
            f"are lost: {reason}; call reset_state() to begin anew from fresh ones"
        )
