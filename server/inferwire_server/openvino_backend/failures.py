"""Remembers which inferences failed lately, so that the same inputs sent again fail at once: `Failures`.

To know that an inference's failure is its own, it has to run in a graph in which nothing else has failed, and making
such a graph takes as long as loading the model. Owns what is remembered, and runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from time import monotonic

from inferwire_server.core.tensors import Shapes, Tensor

LATELY_S = 10.0
"""For how long a failure is remembered."""

_MOST = 64
"""How many shapes are remembered, the latest ones."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An inference that failed in a graph of its own.

    Attributes:
        message: Why it failed.
        digest: The digest of its inputs' bytes.
        until: When it is forgotten.
    """

    message: str
    digest: bytes
    until: float

    def is_of(self, inputs: Sequence[Tensor]) -> bool:
        """Whether these are the very inputs that failed."""
        return self.digest == _digest(inputs)


class Failures:
    """The latest failure of each shape of a model's inputs. Any thread may call it."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._of: dict[Shapes, Failure] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<Failures of {len(self._of)} shapes>"

    def like(self, inputs: Sequence[Tensor]) -> Failure | None:
        """Give the failure of inputs of the same shapes, if there was one lately."""
        if not self._of:
            return None
        with self._lock:
            found = self._of.get(_shapes(inputs))
            return None if found is None or self._clock() >= found.until else found

    def add(self, inputs: Sequence[Tensor], message: str) -> None:
        """Remember that these inputs have failed."""
        failure = Failure(message, _digest(inputs), self._clock() + LATELY_S)
        with self._lock:
            self._of.pop(_shapes(inputs), None)
            self._of[_shapes(inputs)] = failure
            if len(self._of) > _MOST:
                del self._of[next(iter(self._of))]

    def forget(self, inputs: Sequence[Tensor]) -> None:
        """Forget the failure of these shapes, because inputs of these shapes have not failed."""
        with self._lock:
            self._of.pop(_shapes(inputs), None)


def _shapes(inputs: Sequence[Tensor]) -> Shapes:
    return tuple([tensor.shape for tensor in inputs])


def _digest(inputs: Sequence[Tensor]) -> bytes:
    found = blake2b(digest_size=16)
    for tensor in inputs:
        found.update(tensor.data)
    return found.digest()
