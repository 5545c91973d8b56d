"""How urgent a request's inferences are, and how long they may take, on their way to the server."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.client.conftest import double

import inferwire
from inferwire import Scheduling
from inferwire.transport import codec
from inferwire.transport.fake_transport import FakeTransport
from inferwire_proto.inferwire.v1.inference_pb2 import Execution

URGENT = Scheduling(priority=3, time_limit_ms=0.25)


def sent(transport: FakeTransport) -> list[tuple[int, int]]:
    """Give the priorities and the limits in microseconds of what was submitted, as the wire has them."""
    messages = [Execution.FromString(codec.encode_header(each.header)) for each in transport.executions]
    return [(message.scheduling.priority, message.scheduling.timeout_us) for message in messages]


def test_what_a_request_was_given_goes_with_its_next_inferences(
    transport: FakeTransport, compiled: inferwire.CompiledModel
) -> None:
    transport.answer = double
    first, second = compiled.create_infer_request(), compiled.create_infer_request()
    first.infer(np.ones((1, 3), np.float32))
    first.scheduling = URGENT
    assert first.scheduling == URGENT
    first.infer()
    second.infer(np.ones((1, 3), np.float32))
    first.infer()
    first.scheduling = Scheduling()
    first.infer()
    assert sent(transport) == [(0, 0), (3, 250), (0, 0), (3, 250), (0, 0)]
    assert transport.executions[1].header is transport.executions[3].header
    assert transport.executions[0].header is transport.executions[4].header


def test_what_nobody_schedules_says_nothing_of_it(transport: FakeTransport, compiled: inferwire.CompiledModel) -> None:
    transport.answer = double
    compiled.create_infer_request().infer(np.ones((1, 3), np.float32))
    message = Execution.FromString(codec.encode_header(transport.executions[0].header))
    assert not message.HasField("scheduling")


def test_requests_of_a_queue_have_each_their_own(transport: FakeTransport, compiled: inferwire.CompiledModel) -> None:
    transport.answer = double
    queue = inferwire.AsyncInferQueue(compiled, 2)
    queue[1].scheduling = URGENT
    for _ in range(2):
        queue.start_async(np.ones((1, 3), np.float32))
    queue.wait_all()
    assert sorted(sent(transport)) == [(0, 0), (3, 250)]


def test_it_is_not_changed_while_the_request_is_busy(compiled: inferwire.CompiledModel) -> None:
    request = compiled.create_infer_request()
    request.start_async(np.ones((1, 3), np.float32))
    with pytest.raises(RuntimeError, match="Infer Request is busy"):
        request.scheduling = URGENT
    assert request.scheduling == Scheduling()
    request.cancel()


def test_what_is_no_scheduling_is_refused(compiled: inferwire.CompiledModel) -> None:
    request: Any = compiled.create_infer_request()
    with pytest.raises(TypeError, match=r"the scheduling is 3, expected an inferwire\.Scheduling"):
        request.scheduling = 3


@pytest.mark.parametrize(
    ("limit_ms", "limit_us"), [(None, 0), (200, 200_000), (0.5, 500), (np.float32(1.5), 1500), (1e-9, 1)]
)
def test_a_limit_is_whole_microseconds(limit_ms: Any, limit_us: int) -> None:
    assert Scheduling(time_limit_ms=limit_ms).time_limit_us == limit_us


def test_numbers_of_numpy_are_numbers() -> None:
    given: Any = np.int16(-5)
    assert Scheduling(given) == Scheduling(-5)
    assert type(Scheduling(given).priority) is int


@pytest.mark.parametrize("arguments", [("1",), (1.5,), (None,), (0, "1"), (0, [1])])
def test_what_are_no_numbers_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"Scheduling\(priority: int = 0, time_limit_ms: float \| None = None\)"):
        Scheduling(*arguments)


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (0, "0"),
        (-1, "-1"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        (1e300, "1e+300"),
        (10**400, "inf"),
        (-(10**400), "-inf"),
        (Fraction(10**400, 3), "inf"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_limit_that_is_none_is_refused(limit: Any, said: str) -> None:
    with pytest.raises(ValueError, match="the time limit is") as caught:
        Scheduling(time_limit_ms=limit)
    assert str(caught.value) == (
        f"the time limit is {said} ms, expected more than 0 and no more than 2**53, or None for none"
    )


def test_the_longest_limit_is_taken() -> None:
    assert Scheduling(time_limit_ms=2**53).time_limit_us == 2**53 * 1000


def test_true_is_one_as_it_is_for_openvino() -> None:
    assert Scheduling(True, True) == Scheduling(1, 1)


@pytest.mark.parametrize("priority", [2**31, -(2**31) - 1])
def test_a_priority_has_32_bits(priority: int) -> None:
    with pytest.raises(ValueError, match=f"the priority is {priority}, expected from -2147483648 to 2147483647"):
        Scheduling(priority)
