"""The asyncio interface: no thread waits, cancelling reaches the transport, and any loop may ask."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.waiting import LIMIT_S, until

import inferwire as ov
from inferwire.requests.awaiting import Handover
from inferwire.requests.run import Run
from inferwire.transport.fake_transport import FakeExecution, FakeTransport

Finish = Callable[[FakeExecution], None]

ONES = np.ones((1, 3), np.float32)


async def submitted(transport: FakeTransport, count: int) -> None:
    """Let the loop run until so many executions were submitted."""
    await until(lambda: len(transport.executions) >= count)


async def test_an_inference_is_awaited(transport: FakeTransport, request_: ov.InferRequest, finish: Finish) -> None:
    task = asyncio.create_task(request_.infer_async(ONES))
    await submitted(transport, 1)
    assert not task.done()
    with pytest.raises(RuntimeError, match="Infer Request is busy"):
        await request_.infer_async(ONES)
    finish(transport.executions[0])
    assert (await task)["out"].tolist() == [[2, 2, 2]]
    assert request_.latency == 2.0


async def test_what_fails_is_raised_to_whoever_awaits(transport: FakeTransport, request_: ov.InferRequest) -> None:
    task = asyncio.create_task(request_.infer_async(ONES))
    await submitted(transport, 1)
    transport.executions[0].fail(ov.InferenceFailed("the plugin said no"))
    with pytest.raises(ov.InferenceFailed, match="the plugin said no"):
        await task
    with pytest.raises(TypeError):
        await request_.infer_async(object())


async def test_cancelling_the_task_cancels_the_execution(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    task = asyncio.create_task(request_.infer_async(ONES))
    await submitted(transport, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert transport.executions[0].is_cancelled
    finish(transport.executions[0])
    transport.answer = finish
    assert (await request_.infer_async(ONES * 3))["out"].tolist() == [[6, 6, 6]]


async def test_a_request_that_is_cancelled_says_so_to_its_task(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    task = asyncio.create_task(request_.infer_async(ONES))
    await submitted(transport, 1)
    request_.cancel()
    with pytest.raises(ov.Cancelled, match="Infer Request was canceled"):
        await task


async def test_what_has_to_connect_first_does_not_hold_the_loop(
    transport: FakeTransport, request_: ov.InferRequest, finish: Finish
) -> None:
    threads: list[int] = []

    def answer(execution: FakeExecution) -> None:
        threads.append(threading.get_ident())
        finish(execution)

    transport.answer = answer
    transport.is_connected = False
    await request_.infer_async(ONES)
    transport.is_connected = True
    await request_.infer_async(ONES)
    assert threads[0] != threading.get_ident() == threads[1]


async def test_a_queue_has_as_many_in_flight_as_jobs(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    queue = ov.AsyncInferQueue(compiled, 2)
    tasks = [asyncio.create_task(queue.infer_async(ONES * index)) for index in range(5)]
    for index in range(5):
        await submitted(transport, min(index + 2, 5))
        assert len(transport.executions) == min(index + 2, 5)
        finish(transport.executions[index])
    values = [results["out"][0, 0] for results in await asyncio.gather(*tasks)]
    assert values == [0, 2, 4, 6, 8]
    queue.wait_all()
    assert queue.is_ready()


async def test_a_task_that_leaves_the_line_takes_nobodys_turn(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    first, second, third = (asyncio.create_task(queue.infer_async(ONES)) for _ in range(3))
    await submitted(transport, 1)
    second.cancel()
    finish(transport.executions[0])
    await first
    await submitted(transport, 2)
    finish(transport.executions[1])
    await third
    assert second.cancelled()
    queue.wait_all()


async def test_a_task_cancelled_as_its_turn_comes_passes_it_on(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    first, second = (asyncio.create_task(queue.infer_async(ONES)) for _ in range(2))
    await submitted(transport, 1)
    finish(transport.executions[0])
    await first
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await until(queue.is_ready)


async def test_a_job_that_waits_for_room_can_be_cancelled(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    queue = ov.AsyncInferQueue(compiled, 2)
    transport.answer = lambda execution: execution.fail(ov.QueueFull("full", retry_after_s=3600.0))
    first, second, third = (asyncio.create_task(queue.infer_async(ONES * index)) for index in range(3))
    await submitted(transport, 2)
    transport.answer = finish
    queue[0].cancel()
    with pytest.raises(ov.Cancelled, match="Infer Request was canceled"):
        await first
    # Its place is the third's, and its turn the second's.
    values = [results["out"][0, 0] for results in await asyncio.gather(second, third)]
    assert (values, len(transport.executions)) == ([2, 4], 4)
    queue.wait_all()


async def test_a_task_that_waits_for_room_can_be_cancelled(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    queue = ov.AsyncInferQueue(compiled, 2)
    transport.answer = lambda execution: execution.fail(ov.QueueFull("full", retry_after_s=3600.0))
    first, second = (asyncio.create_task(queue.infer_async(ONES * index)) for index in range(2))
    await submitted(transport, 2)
    transport.answer = finish
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await second)["out"].tolist() == [[2, 2, 2]]
    assert len(transport.executions) == 3
    queue.wait_all()


async def test_what_fails_in_a_queue_is_not_told_to_others(
    transport: FakeTransport, compiled: ov.CompiledModel
) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    task = asyncio.create_task(queue.infer_async(ONES))
    await submitted(transport, 1)
    transport.executions[0].fail(ov.InferenceFailed("the plugin said no"))
    with pytest.raises(ov.InferenceFailed):
        await task
    queue.wait_all()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_queue_s_request_that_a_task_awaits_itself_is_lent_to_nobody_and_told_to_the_task_alone(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish, fails: bool
) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    told: list[object] = []
    queue.set_callback(lambda request, _: told.append(request))
    queue.set_error_callback(lambda request, _, error: told.append((request, error)))
    task = asyncio.create_task(queue[0].infer_async(ONES))
    await submitted(transport, 1)
    assert not queue.is_ready()
    if fails:
        transport.executions[0].fail(ov.InferenceFailed("no"))
        with pytest.raises(ov.InferenceFailed, match="no"):
            async with asyncio.timeout(LIMIT_S):
                await task
    else:
        finish(transport.executions[0])
        async with asyncio.timeout(LIMIT_S):
            assert (await task)["out"].tolist() == [[2, 2, 2]]
    assert queue.is_ready()
    queue.wait_all()
    assert told == []


async def test_results_come_in_the_order_of_the_inputs(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    transport.answer = finish
    queue = ov.AsyncInferQueue(compiled, 3)
    values = [results["out"][0, 0] async for results in queue.map_async(ONES * index for index in range(10))]
    assert values == [2 * index for index in range(10)]

    async def produce() -> AsyncIterator[object]:
        for index in range(4):
            yield ONES * index

    assert len([results async for results in queue.map_async(produce())]) == 4
    assert [results async for results in queue.map_async([])] == []


async def test_a_loop_left_early_cancels_what_is_in_flight(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    queue = ov.AsyncInferQueue(compiled, 3)
    results = queue.map_async(ONES for _ in range(10))
    first = asyncio.ensure_future(anext(results))
    await submitted(transport, 3)
    finish(transport.executions[0])
    await first
    await results.aclose()
    assert [execution.is_cancelled for execution in transport.executions] == [False, True, True]
    assert queue.is_ready()
    queue.wait_all()


def test_many_loops_share_a_queue_with_threads(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    transport.answer = finish
    queue = ov.AsyncInferQueue(compiled, 2)
    seen: list[int] = []

    async def ask() -> None:
        seen.append(len(await asyncio.gather(*(queue.infer_async(ONES) for _ in range(50)))))

    threads = [threading.Thread(target=asyncio.run, args=(ask(),), daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        queue.start_async(ONES)
    for thread in threads:
        thread.join(LIMIT_S)
    queue.wait_all()
    assert seen == [50, 50, 50]
    assert len(transport.executions) == 200


def test_a_loop_that_has_gone_is_not_told(transport: FakeTransport, request_: ov.InferRequest, finish: Finish) -> None:
    loop = asyncio.new_event_loop()
    task = loop.create_task(request_.infer_async(ONES))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    finish(transport.executions[0])
    request_.wait()
    assert request_.results["out"].tolist() == [[2, 2, 2]]
    task.cancel  # noqa: B018 - kept until here: a task that is dropped while it is pending complains


def test_a_job_that_was_promised_to_a_loop_which_has_gone_is_idle_again(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    queue.start_async(ONES)

    async def leave_while_waiting() -> None:
        waiting = asyncio.create_task(queue.infer_async(ONES))
        await asyncio.sleep(0)
        assert not waiting.done()

    asyncio.run(leave_while_waiting())
    finish(transport.executions[0])
    assert queue.is_ready()
    queue.wait_all()


def test_a_task_that_leaves_the_line_takes_no_job_with_it_where_its_loop_runs_no_more(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    async def leave_the_line() -> None:
        waiting = asyncio.create_task(queue.infer_async(ONES))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    queue = ov.AsyncInferQueue(compiled, 1)
    queue.start_async(ONES)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave_the_line())
    finish(transport.executions[0])
    assert queue.is_ready()
    queue.wait_all()
    loop.close()


@pytest.mark.parametrize("is_in_flight", [False, True])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_job_whose_loop_was_closed_comes_back_with_its_end(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish, *, is_in_flight: bool
) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    if not is_in_flight:
        queue.start_async(ONES)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)
    tasks = [loop.create_task(queue.infer_async(ONES)) for _ in range(2)]
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert len(transport.executions) == 1
    if is_in_flight:
        # The garbage collector ends the tasks before the inference does.
        tasks.clear()
        del loop
        gc.collect()
        assert not queue.is_ready()
    finish(transport.executions[0])
    assert queue.is_ready()
    queue.wait_all()
    tasks.clear()
    gc.collect()
    transport.answer = finish
    queue.start_async(ONES)
    queue.wait_all()
    assert len(transport.executions) == 2


async def test_what_is_cancelled_before_it_could_be_sent_is_not_sent(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    may_send = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        threads.submit(may_send.wait, LIMIT_S)
        transport.is_connected = False
        task = asyncio.create_task(request_.infer_async(ONES))
        await asyncio.sleep(0)
        request_.cancel()
        may_send.set()
        with pytest.raises(ov.Cancelled):
            await task
    assert transport.executions == []


def test_what_a_dropped_coroutine_began_gives_its_job_back_and_is_nobodys_failure(
    transport: FakeTransport, compiled: ov.CompiledModel
) -> None:
    async def begin_and_drop() -> None:
        coroutine = queue.infer_async(ONES)
        coroutine.send(None)
        coroutine.close()

    queue = ov.AsyncInferQueue(compiled, 1)
    asyncio.run(begin_and_drop())
    assert not queue.is_ready()
    transport.executions[0].fail(ov.InferenceFailed("no"))
    assert queue.is_ready()
    queue.wait_all()


async def test_a_dropped_coroutine_has_no_job_any_more_though_its_loop_runs(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    for is_in_flight in (True, False):
        if not is_in_flight:
            queue.start_async(ONES)
        coroutine = queue.infer_async(ONES)
        coroutine.send(None)
        coroutine.close()
        assert not queue.is_ready()
        finish(transport.executions[-1])
        assert queue.is_ready()
    assert len(transport.executions) == 2


async def test_the_queue_keeps_nothing_of_a_task_that_leaves_its_line(
    compiled: ov.CompiledModel, transport: FakeTransport, finish: Finish
) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    queue.start_async(ONES)
    task = asyncio.ensure_future(queue.infer_async(ONES))
    await asyncio.sleep(0)
    assert queue._pool._turns  # pyright: ignore[reportPrivateUsage]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not queue._pool._turns  # pyright: ignore[reportPrivateUsage]
    finish(transport.executions[0])
    queue.wait_all()


async def test_a_coroutine_may_be_dropped_as_its_turn_comes(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Garbage collection may do so at any point of giving it the turn."""
    queue = ov.AsyncInferQueue(compiled, 1)
    queue.start_async(ONES)
    coroutine = queue.infer_async(ONES)
    coroutine.send(None)
    pool = queue._pool  # pyright: ignore[reportPrivateUsage]
    lend = pool._lend  # pyright: ignore[reportPrivateUsage]

    def drop_and_lend(run: Run) -> int:
        coroutine.close()
        return lend(run)

    monkeypatch.setattr(pool, "_lend", drop_and_lend)
    finish(transport.executions[0])
    assert queue.is_ready()


async def test_a_task_may_leave_the_line_as_it_is_put_back_at_its_head(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    class Line(OrderedDict[Run, Handover[int]]):
        def popitem(self, last: bool = True) -> tuple[Run, Handover[int]]:
            """Take the head of the line, and have a thread take the request that this would have had."""
            head = super().popitem(last)
            queue.start_async(ONES)
            return head

        def __setitem__(self, run: Run, turn: Handover[int]) -> None:
            super().__setitem__(run, turn)
            if run in has_waited:
                coroutine.close()
            has_waited.append(run)

    has_waited: list[Run] = []
    queue = ov.AsyncInferQueue(compiled, 1)
    queue._pool._turns = Line()  # pyright: ignore[reportPrivateUsage]
    queue.start_async(ONES)
    coroutine = queue.infer_async(ONES)
    coroutine.send(None)
    finish(transport.executions[0])
    finish(transport.executions[1])
    queue.wait_all()
    assert len(transport.executions) == 2


def test_a_job_that_fails_to_be_sent_comes_back_though_its_task_has_gone(
    transport: FakeTransport, compiled: ov.CompiledModel, finish: Finish
) -> None:
    def refuse(_: FakeExecution) -> None:
        assert may_refuse.wait(LIMIT_S)
        raise ov.ServerUnavailable("no server")

    async def begin_and_drop() -> None:
        coroutine = queue.infer_async(ONES)
        coroutine.send(None)
        coroutine.close()
        may_refuse.set()

    may_refuse = threading.Event()
    queue = ov.AsyncInferQueue(compiled, 1)
    transport.answer, transport.is_connected = refuse, False
    asyncio.run(begin_and_drop())
    assert queue.is_ready()
    transport.answer, transport.is_connected = finish, True
    queue.start_async(ONES)
    queue.wait_all()


def test_what_cannot_begin_on_a_queues_request_leaves_it_idle(compiled: ov.CompiledModel) -> None:
    queue = ov.AsyncInferQueue(compiled, 1)
    with pytest.raises(TypeError):
        asyncio.run(queue[0].infer_async(object()))
    assert queue.is_ready()
