"""The ways that use openvino's API: in this process, or remote by the mirror. One body for both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import openvino as ov
from tests.bench.load import Answered, KnownAnswers, check
from tests.bench.networks import Array


def infer(compiled: Any, sample: Array, expected: Array) -> Callable[[float], Answered]:
    """One request, one inference after the other."""
    request = compiled.create_infer_request()
    return _in_turn(lambda: request.infer(sample), lambda result: check(result[0], expected, "infer"))


def infer_in_place(compiled: Any, sample: Array, expected: Array) -> Callable[[float], Answered]:
    """As `infer`, but the input is read where it is, so that there is the inference and nothing beside it.

    Only for openvino's own.
    """
    request = compiled.create_infer_request()
    request.set_input_tensor(0, ov.Tensor(sample, shared_memory=True))
    answers = KnownAnswers(_reading(expected), expected, "infer in place")
    return _in_turn(request.infer, lambda _: answers.check(request.get_output_tensor(0).data.tobytes()))


def async_queue(module: Any, compiled: Any, sample: Array, expected: Array, jobs: int) -> Callable[[float], Answered]:
    """An AsyncInferQueue kept full; its callback reads the output."""
    answers = KnownAnswers(_reading(expected), expected, "AsyncInferQueue")

    def run(seconds: float) -> Answered:
        latencies: list[float] = []
        failures: list[AssertionError] = []

        def completed(request: Any, started: float) -> None:
            latencies.append(perf_counter() - started)
            try:
                answers.check(request.get_output_tensor(0).data.tobytes())
            except AssertionError as failure:
                failures.append(failure)

        queue = module.AsyncInferQueue(compiled, jobs)
        queue.set_callback(completed)
        start = now = perf_counter()
        while now - start < seconds:
            queue.start_async(sample, now)
            now = perf_counter()
        queue.wait_all()
        elapsed = perf_counter() - start
        if failures:
            raise failures[0]
        return Answered.of(latencies, elapsed)

    return run


def awaited(module: Any, compiled: Any, sample: Array, expected: Array, jobs: int) -> Callable[[float], Answered]:
    """Tasks of asyncio that share a queue, each of which awaits one inference after the other; not in openvino."""
    answers = KnownAnswers(_reading(expected), expected, "infer_async")

    async def run(seconds: float) -> Answered:
        queue = module.AsyncInferQueue(compiled, jobs)
        latencies: list[float] = []
        start = perf_counter()

        async def infer_in_turn() -> None:
            while (began := perf_counter()) - start < seconds:
                results = await queue.infer_async(sample)
                latencies.append(perf_counter() - began)
                answers.check(results[0].tobytes())

        await asyncio.gather(*(infer_in_turn() for _ in range(jobs)))
        return Answered.of(latencies, perf_counter() - start)

    return lambda seconds: asyncio.run(run(seconds))


def _in_turn(infer_once: Callable[[], Any], check_result: Callable[[Any], object]) -> Callable[[float], Answered]:
    """Run one inference after the other, and check each result."""

    def run(seconds: float) -> Answered:
        latencies: list[float] = []
        start = now = perf_counter()
        while now - start < seconds:
            result = infer_once()
            done = perf_counter()
            latencies.append(done - now)
            check_result(result)
            now = perf_counter()
        return Answered.of(latencies, now - start)

    return run


def _reading(expected: Array) -> Callable[[bytes], Array]:
    """Make the function that reads an output's bytes."""

    def read(answer: bytes) -> Array:
        return np.frombuffer(answer, expected.dtype).reshape(expected.shape)

    return read
