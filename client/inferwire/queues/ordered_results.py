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
"""An input that takes longer may have held the event loop, which then has a turn before the next. Not after each input:
what is started within one turn may travel as one."""


async def results_in_order(
    run: Callable[[Any], Coroutine[Any, Any, R]],
    inputs: Iterable[Any] | AsyncIterable[Any],
    most: int,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[R]:
    """Run something on each of the inputs and yield what it gives, each result as soon as those before it.

    No more than `most` inputs are ahead of whoever takes the results. Where the inputs or a result fail, the results
    before come first. The inputs are closed and what is under way is cancelled by the time this ends.
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
