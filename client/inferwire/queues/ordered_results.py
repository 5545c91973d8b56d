"""Results in the order of the inputs they come from, for asyncio: `results_in_order`.

Owns how far the inputs may be ahead of the results. Knows no requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Coroutine, Generator, Iterable
from typing import Any, TypeVar

R = TypeVar("R")

HELD_S = 0.001
"""An input that takes longer than this may have held up the event loop, which then has a turn before the next input. It
has none after each input, because executions that are started within one turn may travel as one."""


async def results_in_order(
    run: Callable[[Any], Coroutine[Any, Any, R]],
    inputs: Iterable[Any] | AsyncIterable[Any],
    most: int,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[R]:
    """Run something on each of the inputs and yield the results in order, each as soon as those before it.

    At most `most` inputs are ahead of the results that were taken. If the inputs or a run fail, the results before that
    come first. By the time this ends, the inputs are closed and runs in flight are cancelled.
    """
    room = asyncio.Semaphore(most)
    started = asyncio.Queue[asyncio.Task[Any]]()
    source = asyncio.create_task(_start_each(run, inputs, started, room, clock))
    source.add_done_callback(started.put_nowait)
    try:
        while (task := await started.get()) is not source:
            yield await task
            room.release()
        await source
    finally:
        unfinished = [source, *(started.get_nowait() for _ in range(started.qsize()))]
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)


async def _start_each(
    run: Callable[[Any], Coroutine[Any, Any, R]],
    inputs: Iterable[Any] | AsyncIterable[Any],
    started: asyncio.Queue[asyncio.Task[R]],
    room: asyncio.Semaphore,
    clock: Callable[[], float],
) -> None:
    source = aiter(inputs) if isinstance(inputs, AsyncIterable) else _asynchronous(inputs)
    try:
        await room.acquire()
        asked_s = clock()
        async for each in source:
            started.put_nowait(asyncio.create_task(run(each)))
            if clock() - asked_s > HELD_S:
                await asyncio.sleep(0)
            await room.acquire()
            asked_s = clock()
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()


async def _asynchronous(values: Iterable[Any]) -> AsyncIterator[Any]:
    iterator = iter(values)
    try:
        for value in iterator:
            yield value
    finally:
        if isinstance(iterator, Generator):
            iterator.close()
