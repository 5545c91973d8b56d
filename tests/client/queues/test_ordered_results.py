"""Results in the order of their inputs: each at once, none lost, and nothing left over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from itertools import count

import pytest
from tests.waiting import LIMIT_S, until

from inferwire.queues.ordered_results import results_in_order


class Runs:
    """Runs that the test ends, by their inputs."""

    def __init__(self) -> None:
        self.open: dict[int, asyncio.Future[str]] = {}
        self.cancelled: list[int] = []

    async def run(self, value: int) -> str:
        self.open[value] = asyncio.get_running_loop().create_future()
        try:
            return await self.open[value]
        except asyncio.CancelledError:
            self.cancelled.append(value)
            raise

    async def end(self, *values: int) -> None:
        """End runs, each once it has started."""
        for value in values:
            await until(lambda value=value: value in self.open)
            self.open[value].set_result(f"result {value}")


@pytest.fixture
def runs() -> Runs:
    return Runs()


async def settled() -> None:
    """Let everything happen that waits for nothing."""
    for _ in range(20):
        await asyncio.sleep(0)


def next_of(results: AsyncGenerator[str]) -> asyncio.Task[str]:
    async def take() -> str:
        async with asyncio.timeout(LIMIT_S):
            return await anext(results)

    return asyncio.create_task(take())


async def ended(results: AsyncGenerator[str]) -> bool:
    """Take results to their end; nothing may be left that still runs."""
    assert [each async for each in results] == []
    return others() == set()


def others() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


class Closing:
    """Inputs without end that note that they were closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def numbers(self) -> Generator[int]:
        try:
            yield from count()
        finally:
            self.is_closed = True

    async def awaited_numbers(self) -> AsyncGenerator[int]:
        try:
            for each in count():
                await asyncio.sleep(0)
                yield each
        finally:
            await asyncio.sleep(0)
            self.is_closed = True

    def __iter__(self) -> Iterator[int]:
        return self.numbers()


SOURCES: dict[str, Callable[[Closing], AsyncIterator[int] | Iterator[int] | Closing]] = {
    "a generator": Closing.numbers,
    "an asynchronous generator": Closing.awaited_numbers,
    "what makes a generator": lambda closing: closing,
}


async def test_each_result_waits_for_those_before_it(runs: Runs) -> None:
    results = results_in_order(runs.run, range(3), 3)
    first = next_of(results)
    await runs.end(2, 1)
    await settled()
    assert not first.done()
    await runs.end(0)
    assert [await first, await anext(results), await anext(results)] == ["result 0", "result 1", "result 2"]
    assert await ended(results)


async def test_a_result_does_not_wait_for_a_later_input(runs: Runs) -> None:
    never = asyncio.Event()

    async def source() -> AsyncIterator[int]:
        yield 0
        await never.wait()

    results = results_in_order(runs.run, source(), 4)
    first = next_of(results)
    await runs.end(0)
    assert await first == "result 0"
    await results.aclose()
    assert others() == set()


async def test_an_input_may_come_of_the_result_before_it(runs: Runs) -> None:
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def source() -> AsyncIterator[int]:
        for each in range(3):
            yield each
            assert await seen.get() == f"result {each}"

    results = results_in_order(runs.run, source(), 4)
    for each in range(3):
        result = next_of(results)
        await runs.end(each)
        seen.put_nowait(await result)
    assert await ended(results)


async def test_a_run_starts_before_the_next_input_is_taken_that_takes_its_time(runs: Runs) -> None:
    def source() -> Iterator[int]:
        for each in range(3):
            assert list(runs.open) == list(range(each))
            yield each

    results = results_in_order(runs.run, source(), 4, clock=count().__next__)
    first = next_of(results)
    await runs.end(0, 1, 2)
    assert [await first, *[each async for each in results]] == ["result 0", "result 1", "result 2"]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
async def test_inputs_are_taken_as_results_are(runs: Runs, source: Callable[[Closing], Iterator[int]]) -> None:
    results = results_in_order(runs.run, source(Closing()), 2)
    first = next_of(results)
    await runs.end(0, 1)
    await first
    await settled()
    assert list(runs.open) == [0, 1]
    assert await anext(results) == "result 1"
    third = next_of(results)
    await runs.end(2)
    assert await third == "result 2"
    await settled()
    assert list(runs.open) == [0, 1, 2, 3]
    await results.aclose()


async def test_what_was_started_comes_before_the_error_of_the_inputs(runs: Runs) -> None:
    def source() -> Iterator[int]:
        yield from range(2)
        raise LookupError("no more")

    async def awaited_source() -> AsyncIterator[int]:
        for each in source():
            yield each

    for each in (source(), awaited_source()):
        runs.open.clear()
        results = results_in_order(runs.run, each, 4)
        first = next_of(results)
        await runs.end(1, 0)
        assert [await first, await anext(results)] == ["result 0", "result 1"]
        with pytest.raises(LookupError, match="no more"):
            await anext(results)
        assert await ended(results)
    assert runs.cancelled == []


async def test_what_is_no_source_is_said(runs: Runs) -> None:
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        await anext(results_in_order(runs.run, 3, 4))  # pyright: ignore[reportArgumentType]
    assert others() == set()


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
async def test_a_run_that_fails_ends_all(runs: Runs, source: Callable[[Closing], Iterator[int]]) -> None:
    closing = Closing()
    results = results_in_order(runs.run, source(closing), 3)
    first = next_of(results)
    await until(lambda: len(runs.open) == 3)
    runs.open[1].set_exception(LookupError("the run failed"))
    await runs.end(0)
    assert await first == "result 0"
    with pytest.raises(LookupError, match="the run failed"):
        await anext(results)
    assert 2 in runs.cancelled
    assert closing.is_closed
    assert await ended(results)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
async def test_leaving_early_cancels_what_is_under_way(runs: Runs, source: Callable[[Closing], Iterator[int]]) -> None:
    closing = Closing()
    ending = asyncio.create_task(runs.end(0))
    async for each in results_in_order(runs.run, source(closing), 3):
        assert (each, ending.done()) == ("result 0", True)
        break
    # Nobody holds the results any more, and so the loop closes them.
    await until(lambda: closing.is_closed and others() == set())
    assert runs.cancelled == [1, 2]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
async def test_a_task_that_is_cancelled_cancels_what_is_under_way(
    runs: Runs, source: Callable[[Closing], Iterator[int]]
) -> None:
    closing = Closing()
    first = next_of(results_in_order(runs.run, source(closing), 3))
    await until(lambda: len(runs.open) == 3)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert sorted(runs.cancelled) == [0, 1, 2]
    assert closing.is_closed
    assert others() == set()
