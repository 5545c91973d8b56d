"""Callers' sequences on models with states: which of them is bound to which slot."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.bindings import Binding
from inferwire_server.core.sessions import Session
from inferwire_server.engine.models import Model
from inferwire_server.errors import ServingError
from inferwire_server.service.values import SequenceCall

_Key: TypeAlias = tuple[Session | None, Model, int | str]
"""A sequence's name: whose it is, on which model, and its id there."""


class Sequences:
    """The sequences under way, and those that are ending: one that starts anew has the old one's place."""

    def __init__(self) -> None:
        self._bindings: dict[_Key, Binding] = {}

    def __len__(self) -> int:
        return sum(not binding.is_ending for binding in self._bindings.values())

    def __repr__(self) -> str:
        return f"<Sequences: {len(self)} under way>"

    @contextmanager
    def joined(self, model: Model, call: SequenceCall) -> Generator[Binding]:
        """Give the binding that a job of a sequence runs on, for as long as it takes to submit the job.

        Raises:
            ServingError: SEQUENCE_NOT_FOUND if it is not under way and does not start here; QUEUE_FULL if the
                model keeps no more callers' states; MODEL_NOT_READY if the model is being removed.
        """
        key = call.session, model, call.id
        binding = self._start(key) if call.is_start else self._under_way(key)
        try:
            yield binding
        except BaseException:
            if call.is_start:
                model.device.release(binding)
            raise
        if call.is_end:
            model.device.release(binding)

    def end(self, session: Session) -> None:
        """End all sequences of a session."""
        for key in [key for key in self._bindings if key[0] is session]:
            self._release(key)

    def release(self, session: Session, ids: Sequence[int]) -> None:
        """End sequences of a session, on whichever models they are; pass over what is not under way."""
        released = frozenset(ids)
        for key in [key for key in self._bindings if key[0] is session and key[2] in released]:
            self._release(key)

    def _under_way(self, key: _Key) -> Binding:
        binding = self._bindings.get(key)
        if binding is None or binding.is_ending:
            _, model, sequence_id = key
            raise ServingError(
                Code.SEQUENCE_NOT_FOUND,
                f"inference request for sequence {sequence_id} to model '{model.name}' must specify the START flag on "
                "the first request of the sequence: it never started, has ended, was idle for too long, or began "
                "before the model was reloaded",
            )
        return binding

    def _start(self, key: _Key) -> Binding:
        _, model, _ = key
        binding = model.device.bind(model, self._forgetting(key), instead_of=self._bindings.get(key))
        self._release(key)
        self._bindings[key] = binding
        return binding

    def _forgetting(self, key: _Key) -> Callable[[Binding], None]:
        def forget(binding: Binding) -> None:
            if self._bindings.get(key) is binding:
                del self._bindings[key]

        return forget

    def _release(self, key: _Key) -> None:
        """Let a sequence, if there is one, take no more jobs and end with its last."""
        binding = self._bindings.get(key)
        if binding is not None:
            _, model, _ = key
            model.device.release(binding)
