"""Clients of the Python API: inferences one by one and in queues, cancels, states, and models of their own."""

from __future__ import annotations

import gc
from random import Random
from typing import Any

import numpy as np
from tests.soak.sample import PAIRS, SUMMED_PAIRS, SUMS, Sample
from tests.soak.tally import OK, Tally

import inferwire

QUEUE_JOBS = 8
QUEUE_ROUND = 64
F32 = {"INFERENCE_PRECISION_HINT": "f32"}


def outcome(error: inferwire.InferwireError) -> str:
    """Name what a call ended in."""
    return error.code.name if error.code else type(error).__name__


def infer(address: str, sample: Sample, tally: Tally, random: Random) -> None:
    """Infer one after the other, now and then with a short time limit, or with outputs that stay on the server."""
    core = inferwire.Core(address)
    request = core.served_model(random.choice(sample.names)).create_infer_request()
    while not tally.stop.is_set():
        index, is_hurried = random.randrange(len(sample)), random.random() < 0.1
        request.scheduling = inferwire.Scheduling(random.randrange(-1, 2), 0.5 if is_hurried else None)
        request.postpone_outputs = random.random() < 0.1
        try:
            tally.add("SDK infer", sample.check(index, request.infer(sample.rows[index])[0]))
        except inferwire.InferwireError as error:
            tally.add("SDK infer", outcome(error), (OK, "QUEUE_FULL", *["DEADLINE_EXCEEDED"] * is_hurried))
    core.close()


def queue(address: str, sample: Sample, tally: Tally, random: Random) -> None:
    """Keep a queue of requests busy, round after round."""
    core = inferwire.Core(address)
    jobs: Any = inferwire.AsyncInferQueue(core.served_model(random.choice(sample.names)), QUEUE_JOBS)

    def check(request: inferwire.InferRequest, index: int) -> None:
        tally.add("SDK queue", sample.check(index, request.get_output_tensor().data))

    jobs.set_callback(check)
    while not tally.stop.is_set():
        try:
            for _ in range(QUEUE_ROUND):
                index = random.randrange(len(sample))
                jobs.start_async(sample.rows[index], userdata=index)
            jobs.wait_all()
        except inferwire.InferwireError as error:
            tally.add("SDK queue", outcome(error))
    core.close()


def cancel(address: str, sample: Sample, tally: Tally, random: Random) -> None:
    """Start requests and cancel some of them at random moments."""
    core = inferwire.Core(address)
    compiled = core.served_model(random.choice(sample.names))
    requests = [compiled.create_infer_request() for _ in range(4)]
    while not tally.stop.wait(0.01):
        chosen = [(request, random.randrange(len(sample)), random.random() < 0.5) for request in requests]
        for request, index, _ in chosen:
            request.start_async(sample.rows[index])
        for request, _, is_unwanted in chosen:
            if is_unwanted:
                request.cancel()
        for request, index, is_unwanted in chosen:
            try:
                request.wait()
                tally.add("SDK cancel", sample.check(index, request.get_output_tensor().data))
            except inferwire.InferwireError as error:
                tally.add("SDK cancel", outcome(error), (OK, "QUEUE_FULL", *["CANCELLED"] * is_unwanted))
    core.close()


def states(address: str, sample: Sample, tally: Tally, random: Random) -> None:
    """Add up in requests of their own, and begin anew after a cancel or an error: no sum is another's."""
    del sample
    core = inferwire.Core(address)
    compiled = core.served_model(SUMS)
    requests, sums = [compiled.create_infer_request() for _ in range(3)], [0, 0, 0]
    while not tally.stop.wait(0.005):
        at, number, is_unwanted = random.randrange(3), random.randrange(100), random.random() < 0.2
        request = requests[at]
        try:
            request.start_async(np.full((1, 4), number, np.float32))
            if is_unwanted:
                request.cancel()
            request.wait()
            sums[at] += number
            found: Any = request.results[0] if random.random() < 0.9 else request.query_state()[0].state.data
            tally.add("SDK states", OK if (found == sums[at]).all() else f"{found}, not {sums[at]}")
        except inferwire.InferwireError as error:
            tally.add("SDK states", outcome(error), ("QUEUE_FULL", *["CANCELLED"] * is_unwanted))
            requests[at], sums[at] = _begun_anew(request, compiled, random), 0
    core.close()


def pairs(address: str, sample: Sample, tally: Tally, random: Random) -> None:
    """Send inputs that fail now and then, alone and to a state: no other call may fail or change by that."""
    del sample
    core = inferwire.Core(address)
    alone, summed = (core.served_model(name).create_infer_request() for name in (PAIRS, SUMMED_PAIRS))
    total = 0.0
    while not tally.stop.wait(0.005):
        length = random.randrange(1, 40) if random.random() < 0.1 else 2 * random.randrange(1, 20)
        numbers = np.arange(length, dtype=np.float32)
        fails = ("QUEUE_FULL", *["INFERENCE_FAILED"] * (length % 2))
        try:
            found: Any = alone.infer(numbers)[0]
            tally.add(
                "SDK pairs", OK if np.array_equal(found, numbers.reshape(-1, 2)) else f"{found.shape} of {length}"
            )
        except inferwire.InferwireError as error:
            tally.add("SDK pairs", outcome(error), fails)
        try:
            results: Any = summed.infer(numbers)
            total += float(numbers.sum())
            is_right = results[0] == total and np.array_equal(results[1], numbers.reshape(-1, 2))
            tally.add("SDK summed pairs", OK if is_right else f"{results[0]} and {results[1].shape}, not {total}")
        except inferwire.InferwireError as error:
            tally.add("SDK summed pairs", outcome(error), fails)
        if total > 1e6:
            summed.reset_state()
            total = 0.0
    core.close()


def _begun_anew(
    request: inferwire.InferRequest, compiled: inferwire.CompiledModel, random: Random
) -> inferwire.InferRequest:
    """Give a request with fresh states: the same one, or another."""
    if random.random() < 0.5:
        return compiled.create_infer_request()
    request.reset_state()
    return request


def upload(address: str, sample: Sample, tally: Tally, random: Random) -> None:
    """Come, bring a model, use it, and go: properly or not."""
    while not tally.stop.wait(0.5):
        core = inferwire.Core(address)
        try:
            compiled = core.compile_model(sample.model_file, "CPU", F32)
            for index in range(4):
                tally.add("upload", sample.check(index, np.asarray(compiled(sample.rows[index])[0])))
        except inferwire.InferwireError as error:
            tally.add("upload", outcome(error))
        if random.random() < 0.5:
            core.close()
        # Objects in cycles hold connections until they are collected: the number of sessions must not be up to chance.
        compiled = core = None
        gc.collect()
