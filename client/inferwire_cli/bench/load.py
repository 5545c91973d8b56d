"""A load: inferences one after the other in several places at once, until there have been enough. Knows no server."""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from math import nan
from time import perf_counter

import numpy as np

from inferwire.errors import InferwireError, ServerUnavailable
from inferwire_cli.infer.elements import Array
from inferwire_cli.terminal import CommandError, advice_of_commands


@dataclass(frozen=True, slots=True)
class Sample:
    """One answered inference, in milliseconds.

    Attributes:
        total_ms: As its caller saw it.
        queue_ms: From the server's admission to the start of the inference; None if the server does not tell.
        inference_ms: On the device; None if the server does not tell.
    """

    total_ms: float
    queue_ms: float | None
    inference_ms: float | None

    @property
    def wire_ms(self) -> float | None:
        """The rest of the total: encoding, network, decoding."""
        if self.queue_ms is None or self.inference_ms is None:
            return None
        return max(0.0, self.total_ms - self.queue_ms - self.inference_ms)


PARTS = ("latency", "queue", "inference", "wire")
"""The parts of an inference's time, by the names they are shown under."""


class Samples:
    """All samples of a load, in eight bytes for each number: there may be millions. Threads share it."""

    def __init__(self) -> None:
        self._numbers = array("d")
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._numbers) // len(PARTS)

    def append(self, sample: Sample) -> None:
        """Add a sample."""
        parts = (sample.total_ms, sample.queue_ms, sample.inference_ms, sample.wire_ms)
        with self._lock:
            self._numbers.extend(nan if part is None else part for part in parts)

    def column(self, part: str) -> Array:
        """Give one part of all samples; NaN if it is not known."""
        with self._lock:
            return np.array(self._numbers).reshape(-1, len(PARTS))[:, PARTS.index(part)]


class Budget:
    """How much is left to do: a number of inferences, or the time until a moment of the clock."""

    def __init__(self, number: int | None, seconds: float | None, clock: Callable[[], float] = perf_counter) -> None:
        self._number = number
        self._seconds = seconds
        self._clock = clock
        self._begun = clock()
        self._lock = threading.Lock()
        self._taken = 0
        self._is_stopped = False

    def take(self) -> bool:
        """Take one inference, if there is one left."""
        with self._lock:
            if self._is_stopped or self._is_spent():
                return False
            self._taken += 1
            return True

    def stop(self) -> None:
        """End the budget, so that nothing is left to take."""
        with self._lock:
            self._is_stopped = True

    @property
    def elapsed_s(self) -> float:
        """The time since it began."""
        return self._clock() - self._begun

    @property
    def done(self) -> float:
        """How much has been taken, from 0 to 1."""
        if self._number is not None:
            return self._taken / self._number
        return min(1.0, self.elapsed_s / self._seconds) if self._seconds else 1.0

    def _is_spent(self) -> bool:
        if self._number is not None:
            return self._taken >= self._number
        return self._seconds is not None and self.elapsed_s >= self._seconds


@dataclass(slots=True)
class Tally:
    """The outcomes of the inferences. Threads share it."""

    samples: Samples = field(default_factory=Samples)
    failures: Counter[str] = field(default_factory=Counter[str])
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def answer(self, sample: Sample) -> None:
        """Note one that was answered."""
        self.samples.append(sample)

    def fail(self, reason: str) -> None:
        """Note one that failed."""
        with self._lock:
            self.failures[advice_of_commands(reason)] += 1


Call = Callable[[], Sample]
"""One inference, from its start to its answer. Raises `InferwireError` if it fails."""

Spend = Callable[[Budget, Tally], None]
"""Spends a budget and notes the outcomes. Raises the error that ended it, as `ServerUnavailable` without a server."""

Way = Callable[[], AbstractContextManager[Spend]]
"""Opens the connections of a load, for budgets that are spent one after the other, and closes them."""


def in_threads(open_call: Callable[[], AbstractContextManager[Call]], concurrency: int) -> Way:
    """Make a way of so many threads, each with a call of its own. All calls are open before the first is made."""

    @contextmanager
    def opened() -> Generator[Spend]:
        with ExitStack() as stack:
            calls = [stack.enter_context(open_call()) for _ in range(concurrency)]
            yield lambda budget, tally: _spend_in_threads(calls, budget, tally)

    return opened


def _spend_in_threads(calls: Sequence[Call], budget: Budget, tally: Tally) -> None:
    ended_by: list[Exception] = []

    def end(error: Exception) -> None:
        ended_by.append(error)
        budget.stop()

    def work(call: Call) -> None:
        try:
            while budget.take():
                _note(call, tally)
        except Exception as error:  # noqa: BLE001 - raised by the thread that waits for these
            end(error)

    threads = [threading.Thread(target=work, args=(call,), daemon=True) for call in calls]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError as error:
        end(CommandError(f"no more threads can be started: give less --concurrency ({error})"))
        threads = [each for each in threads if each.is_alive()]
    for thread in threads:
        thread.join()
    if ended_by:
        raise ended_by[0]


def _note(call: Call, tally: Tally) -> None:
    try:
        tally.answer(call())
    except ServerUnavailable:
        raise
    except InferwireError as error:
        tally.fail(str(error))
