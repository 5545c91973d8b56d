"""The threads that users' callbacks run on: never gRPC's, so that a callback may call anything.

Owns how many there are. Most callbacks take less time than waking a thread, and come in bursts. So a thread that is
awake runs one after the other, and while callbacks wait it has a single further thread called in, which gets to run as
soon as a callback blocks. A callback that waits inside this SDK gives its place to another thread, so that callbacks
that wait for each other's requests do not starve. If the system gives no thread at all, callbacks run on the threads
that bring them, one of which reads all answers: a callback that waits there gets an error.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from inferwire.process import THIS

MOST_AWAKE = 4
"""How many threads run callbacks at once, those that wait for something not counted. Started as needed."""

_NO_PLACE = nullcontext()


class _Thread(threading.local):
    """What the calling thread is to callbacks.

    Attributes:
        is_worker: Whether it runs callbacks.
        is_borrowed: Whether it does so only because there is no callback thread.
    """

    is_worker = False
    is_borrowed = False


class CallbackThreads:
    """Daemon threads that run what they are given, in the order given."""

    def __init__(self, limit: int = MOST_AWAKE) -> None:
        self._limit = limit
        self._here = _Thread()
        self._waiting: deque[Callable[[], object]] = deque()
        self._resting: list[threading.Lock] = []
        self._start_over()
        THIS.after_fork(self._start_over)

    def __repr__(self) -> str:
        return f"<CallbackThreads: {len(self._waiting)} waiting, {self._started} threads>"

    def run(self, callback: Callable[[], object]) -> None:
        """Run a callback some time soon. It must not raise, and neither does this."""
        self._waiting.append(callback)
        if not self._is_one_coming:
            self._call_in()

    def is_here(self) -> bool:
        """Whether the caller is a callback thread."""
        return self._here.is_worker

    def blocking(self) -> AbstractContextManager[None]:
        """Let another thread take over while the caller, if it is a callback thread, waits."""
        return self._giving_way() if self._here.is_worker else _NO_PLACE

    @contextmanager
    def _giving_way(self) -> Generator[None]:
        if self._here.is_borrowed:
            raise RuntimeError("a callback cannot wait here: the system gives no thread to run it on")
        with self._lock:
            self._awake -= 1
        if self._waiting:
            self._call_in()
        try:
            yield
        finally:
            with self._lock:
                self._awake += 1

    def _start_over(self) -> None:
        """Begin without threads: a forked child has none of its parent's, except one that forked in a callback."""
        # Reentrant, because garbage collection may bring a callback at any call, even while this thread holds the lock.
        self._lock = threading.RLock()
        self._waiting.clear()
        self._resting.clear()
        self._started = self._awake = int(self._here.is_worker and not self._here.is_borrowed)
        self._is_one_coming = False

    def _call_in(self) -> None:
        """Have one more thread run callbacks, unless the limit is reached or one is coming already."""
        with self._lock:
            if self._is_one_coming or self._awake >= self._limit:
                return
            self._awake += 1
            self._is_one_coming = True
            if self._resting:
                self._resting.pop().release()
                return
            self._started += 1
            name = f"inferwire-callback-{self._started}"
        try:
            threading.Thread(target=self._work, name=name, daemon=True).start()
        except (RuntimeError, MemoryError):
            with self._lock:
                self._awake -= 1
                self._started -= 1
                self._is_one_coming = False
                is_anyone_awake = self._awake > 0
            # The system has no more threads to give at the moment; those that are awake do the work.
            if not is_anyone_awake and not self._here.is_borrowed:
                self._run_here()

    def _run_here(self) -> None:
        """Run the waiting callbacks on the calling thread, since no other is sure to, and waits would never return.

        The calling thread may be the one that reads answers, so a callback that waited on it would never get its own.
        """
        here = self._here
        was_worker, here.is_worker, here.is_borrowed = here.is_worker, True, True
        try:
            self._run_waiting()
        finally:
            here.is_worker, here.is_borrowed = was_worker, False

    def _work(self) -> None:
        self._here.is_worker = True
        bell = threading.Lock()
        bell.acquire()
        while True:
            self._is_one_coming = False
            self._run_waiting()
            if self._may_rest(bell):
                bell.acquire()

    def _run_waiting(self) -> None:
        waiting = self._waiting
        while True:
            try:
                callback = waiting.popleft()
            except IndexError:
                return
            if waiting and not self._is_one_coming:
                self._call_in()
            callback()

    def _may_rest(self, bell: threading.Lock) -> bool:
        """Count the calling thread as resting until its bell is released; return False if a callback waits to run."""
        with self._lock:
            if self._waiting:
                return False
            self._awake -= 1
            self._resting.append(bell)
            return True


CALLBACK_THREADS = CallbackThreads()
"""The callback threads of this process."""
