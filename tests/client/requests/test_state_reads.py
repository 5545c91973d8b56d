"""States that a program reads one after another, after each inference: fetched together once it has read them so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

import inferwire as ov
from inferwire.errors import SessionLost, TooLarge
from inferwire.requests.state_reads import MOST_BYTES
from inferwire.transport.descriptions import ModelDescription, StateValue
from inferwire.transport.executions import SequenceMark, Target
from inferwire.transport.fake_transport import FakeExecution, FakeOutput, FakeStates, FakeTransport
from inferwire_proto.element_types import BY_NAME

ONES = np.ones((1, 3), np.float32)
NAMES = ("h", "c", "k")


def keep(transport: FakeTransport, number: float, count: int = 1) -> None:
    data = np.full(count, number, np.float32).tobytes()
    transport.states.values.update((name, StateValue(name, BY_NAME["f32"], (count,), data)) for name in NAMES)


@pytest.fixture
def transport(description: ModelDescription) -> FakeTransport:
    """One whose states have the number of the inference that left them."""
    transport = FakeTransport(replace(description, states=NAMES))

    def answer(execution: FakeExecution) -> None:
        keep(transport, len(transport.executions))
        execution.finish(FakeOutput(BY_NAME["f32"], (1, 3), bytes(12)))

    transport.answer = answer
    return transport


@pytest.fixture
def request_(transport: FakeTransport) -> ov.InferRequest:
    return ov.Core(transport=transport).served_model("double").create_infer_request()


def read(request: ov.InferRequest, *names: str) -> list[float]:
    return [float(state.state.data[0]) for state in request.query_state() if state.name in names]


def fetch_along(request: ov.InferRequest) -> None:
    """Have a state fetched along with the one that is read, and not read yet."""
    request.infer(ONES)
    read(request, "h", "c")
    request.infer(ONES)
    read(request, "h")


def test_states_that_were_read_after_an_inference_are_fetched_together_after_the_next(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    for number in (1, 2, 3):
        request_.infer(ONES)
        assert read(request_, "h", "c") == [number, number]
    assert transport.states.read == [("h",), ("c",), ("h", "c"), ("h", "c")]


def test_inferences_after_which_no_state_is_read_do_not_end_that(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    request_.infer(ONES)
    read(request_, "h", "c")
    request_.infer(ONES)
    request_.infer(ONES)
    assert read(request_, "h", "c") == [3, 3]
    assert transport.states.read == [("h",), ("c",), ("h", "c")]


def test_a_state_that_was_not_read_before_is_fetched_alone(transport: FakeTransport, request_: ov.InferRequest) -> None:
    request_.infer(ONES)
    read(request_, "h", "c")
    request_.infer(ONES)
    read(request_, "k")
    request_.infer(ONES)
    read(request_, "k")
    assert transport.states.read == [("h",), ("c",), ("k",), ("k",)]


def test_what_was_fetched_along_does_not_outlive_an_inference_that_began_meanwhile(
    transport: FakeTransport, request_: ov.InferRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_.infer(ONES)
    read(request_, "h", "c")
    request_.infer(ONES)
    get = FakeStates.get

    def get_and_be_overtaken(
        states: FakeStates, target: Target, sequence: SequenceMark, names: Sequence[str]
    ) -> Sequence[StateValue]:
        values = get(states, target, sequence, names)
        monkeypatch.setattr(FakeStates, "get", get)
        request_.infer(ONES)
        return values

    monkeypatch.setattr(FakeStates, "get", get_and_be_overtaken)
    assert read(request_, "h", "c") == [2, 3]


def test_a_state_that_is_read_again_is_asked_for_again(transport: FakeTransport, request_: ov.InferRequest) -> None:
    fetch_along(request_)
    read(request_, "h", "c")
    assert transport.states.read == [("h",), ("c",), ("h", "c"), ("h",)]


CHANGES: dict[str, Callable[[ov.InferRequest], object]] = {
    "inference": lambda request: request.infer(ONES),
    "write": lambda request: setattr(request.query_state()[2], "state", ov.Tensor(ONES)),
    "reset of one": lambda request: request.query_state()[2].reset(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_fetched_along_does_not_outlive_a_change(
    transport: FakeTransport, request_: ov.InferRequest, change: Callable[[ov.InferRequest], object]
) -> None:
    fetch_along(request_)
    change(request_)
    keep(transport, 7)
    assert read(request_, "c") == [7]


def test_what_was_fetched_along_does_not_outlive_an_inference_that_was_cancelled(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    fetch_along(request_)
    transport.answer = None
    request_.start_async(ONES)
    request_.cancel()
    keep(transport, 7)
    assert read(request_, "c") == [7]


def test_what_was_fetched_along_is_not_given_once_the_states_are_lost(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    fetch_along(request_)
    transport.states.error = SessionLost("it was idle for too long")
    with pytest.raises(SessionLost):
        read(request_, "h")
    with pytest.raises(SessionLost, match="call reset_state"):
        read(request_, "c")


def test_large_states_are_fetched_one_by_one(transport: FakeTransport, request_: ov.InferRequest) -> None:
    for _ in range(2):
        request_.infer(ONES)
        keep(transport, 7, MOST_BYTES // 8 + 1)
        read(request_, "h", "c")
    assert transport.states.read == [("h",), ("c",), ("h",), ("c",)]


def test_states_that_no_longer_fit_together_are_fetched_one_by_one(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    class Grown(FakeStates):
        """States of which two do not fit in an answer."""

        def get(self, target: Target, sequence: SequenceMark, names: Sequence[str]) -> Sequence[StateValue]:
            values = super().get(target, sequence, names)
            if len(names) > 1:
                raise TooLarge("the answer has too many bytes")
            return values

    request_.infer(ONES)
    read(request_, *NAMES)
    transport.states = grown = Grown(transport.states.values)
    request_.infer(ONES)
    assert read(request_, *NAMES) == [2, 2, 2]
    assert grown.read == [NAMES, ("h",), ("c",), ("k",)]
