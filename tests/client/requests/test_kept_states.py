"""A request's states: what is asked of the server and when, and how a loss is told."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from operator import methodcaller
from typing import Any

import numpy as np
import pytest

import inferwire as ov
from inferwire.errors import AnswerLost, InferwireError, QueueFull, ServerUnavailable, SessionExpired, SessionLost
from inferwire.transport.descriptions import ModelDescription
from inferwire.transport.executions import SequenceMark
from inferwire.transport.fake_transport import FakeExecution, FakeOutput, FakeTransport
from inferwire_proto.element_types import BY_NAME

ONES = np.ones((1, 3), np.float32)


def answer(execution: FakeExecution) -> None:
    execution.finish(FakeOutput(BY_NAME["f32"], (1, 3), bytes(12)))


@pytest.fixture
def transport(description: ModelDescription) -> FakeTransport:
    return FakeTransport(replace(description, states=("h", "c")), answer=answer)


@pytest.fixture
def request_(transport: FakeTransport) -> ov.InferRequest:
    return ov.Core(transport=transport).served_model("double").create_infer_request()


def marks(transport: FakeTransport) -> list[SequenceMark | None]:
    return [execution.header.sequence for execution in transport.executions]


def fail_with(error: InferwireError) -> Callable[[FakeExecution], None]:
    return methodcaller("fail", error)


def test_a_request_begins_its_sequence_with_its_first_inference(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    request_.infer(ONES)
    request_.infer(ONES)
    assert marks(transport) == [SequenceMark(1, is_start=True), SequenceMark(1, is_start=False)]


def test_requests_have_sequences_of_their_own_and_free_them(transport: FakeTransport) -> None:
    compiled = ov.Core(transport=transport).served_model("double")
    requests = [compiled.create_infer_request() for _ in range(2)]
    requests[0].infer(ONES)
    requests[1].infer(ONES)
    assert [mark and mark.id for mark in marks(transport)] == [1, 2]
    requests.clear()
    gc.collect()
    assert sorted(transport.states.released) == [1, 2]


def test_first_calls_that_come_at_once_share_a_request(transport: FakeTransport) -> None:
    class Twice(ov.CompiledModel):
        """A model that is called once more just as the request that calls share is made."""

        is_first = True

        def create_infer_request(self) -> ov.InferRequest:
            request = super().create_infer_request()
            if self.is_first:
                self.is_first = False
                self(ONES)
            return request

    model = Twice(ov.Core(transport=transport).served_model("double"))
    model(ONES)
    model(ONES)
    first, second, third = (mark and mark.id for mark in marks(transport))
    assert first == second == third


def test_a_new_request_for_one_inference_keeps_nothing(transport: FakeTransport) -> None:
    ov.Core(transport=transport).served_model("double").infer_new_request(ONES)
    assert marks(transport) == [None]


def test_a_first_inference_that_failed_is_begun_again(transport: FakeTransport, request_: ov.InferRequest) -> None:
    transport.answer = fail_with(QueueFull("full"))
    with pytest.raises(QueueFull, match="full"):
        request_.infer(ONES)
    transport.answer = answer
    request_.infer(ONES)
    assert [mark and mark.is_start for mark in marks(transport)] == [True, True]


def test_states_are_asked_for_by_name_and_begin_the_sequence_where_nothing_did(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    first, second = request_.query_state()
    assert (first.name, second.name, repr(first)) == ("h", "c", "<VariableState>")
    first.state = ov.Tensor(ONES)
    np.testing.assert_array_equal(first.state.data, ONES)
    second.reset()
    request_.infer(ONES)
    assert transport.states.calls == [
        ("set", SequenceMark(1, is_start=True)),
        ("get", SequenceMark(1, is_start=False)),
        ("reset", SequenceMark(1, is_start=False)),
    ]
    assert marks(transport) == [SequenceMark(1, is_start=False)]


def test_resetting_all_states_asks_nobody_and_has_the_next_call_begin_the_sequence_anew(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    for _ in range(2):
        request_.infer(ONES)
        request_.infer(ONES)
        request_.reset_state()
    request_.query_state()[0].state = ov.Tensor(ONES)
    assert transport.states.calls == [("set", SequenceMark(1, is_start=True))]
    assert [mark and mark.is_start for mark in marks(transport)] == [True, False, True, False]


def test_resetting_what_never_began_asks_nobody(transport: FakeTransport, request_: ov.InferRequest) -> None:
    request_.reset_state()
    request_.query_state()[0].reset()
    assert transport.states.calls == []


def test_only_tensors_become_states(request_: ov.InferRequest) -> None:
    state: Any = request_.query_state()[0]
    with pytest.raises(TypeError, match="incompatible function arguments"):
        state.state = ONES


def test_a_busy_request_s_states_may_not_be_touched(transport: FakeTransport, request_: ov.InferRequest) -> None:
    (state, _) = request_.query_state()
    transport.answer = None
    request_.start_async(ONES)
    for touch in (lambda: state.state, state.reset, lambda: setattr(state, "state", ov.Tensor(ONES))):
        with pytest.raises(RuntimeError, match=r"^Infer Request is busy$"):
            touch()
    answer(transport.executions[-1])
    request_.wait()


LOSSES = {
    "sequence": SessionLost("it was idle for too long"),
    "session": SessionExpired("the session is not open"),
    "answer": AnswerLost("the connection was lost"),
}


@pytest.mark.parametrize("loss", [*LOSSES.values(), ServerUnavailable("gone")], ids=[*LOSSES, "connection"])
def test_lost_states_are_told_until_the_request_begins_anew(
    loss: InferwireError, transport: FakeTransport, request_: ov.InferRequest
) -> None:
    request_.infer(ONES)
    transport.answer = fail_with(loss)
    with pytest.raises(SessionLost, match=str(loss)) as caught:
        request_.infer(ONES)
    assert str(caught.value).startswith("the states of this request of model 'double' on fake are lost: ")
    assert "call reset_state() to begin anew" in str(caught.value)
    transport.answer = answer
    for again in (lambda: request_.infer(ONES), lambda: request_.query_state()[0].state):
        with pytest.raises(SessionLost, match="call reset_state"):
            again()
    assert len(transport.executions) == 2
    request_.reset_state()
    request_.infer(ONES)
    assert transport.executions[-1].header.sequence == SequenceMark(1, is_start=True)


def test_states_that_are_lost_as_they_are_asked_for_are_told(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    request_.infer(ONES)
    transport.states.error = SessionLost("it was idle for too long")
    with pytest.raises(SessionLost, match="call reset_state"):
        _ = request_.query_state()[0].state


UNCHANGED: dict[str, tuple[InferwireError, Callable[[ov.VariableState], object]]] = {
    "read": (ServerUnavailable("nobody answers"), lambda state: state.state),
    "read, perhaps": (AnswerLost("the connection was lost"), lambda state: state.state),
    "not written": (ServerUnavailable("nobody answers"), lambda state: setattr(state, "state", ov.Tensor(ONES))),
    "not reset": (ServerUnavailable("nobody answers"), lambda state: state.reset()),
}


@pytest.mark.parametrize(("error", "touch"), UNCHANGED.values(), ids=UNCHANGED)
def test_states_that_nothing_has_changed_are_kept(
    transport: FakeTransport,
    request_: ov.InferRequest,
    error: InferwireError,
    touch: Callable[[ov.VariableState], object],
) -> None:
    request_.infer(ONES)
    state = request_.query_state()[0]
    state.state = ov.Tensor(ONES)
    transport.states.error = error
    with pytest.raises(ServerUnavailable, match=str(error)) as caught:
        touch(state)
    assert type(caught.value).__name__ in ov.__all__
    transport.states.error = None
    touch(state)
    request_.infer(ONES)
    assert [mark and mark.is_start for mark in marks(transport)] == [True, False]


def test_states_of_which_a_change_may_have_happened_are_lost(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    request_.infer(ONES)
    state = request_.query_state()[0]
    transport.states.error = AnswerLost("the connection was lost")
    for _ in range(2):
        with pytest.raises(SessionLost, match="an answer was lost"):
            state.state = ov.Tensor(ONES)
        transport.states.error = None


def test_all_states_can_be_made_fresh_while_nobody_answers(transport: FakeTransport, request_: ov.InferRequest) -> None:
    request_.infer(ONES)
    transport.states.error = ServerUnavailable("nobody answers")
    request_.reset_state()
    request_.infer(ONES)
    assert [mark and mark.is_start for mark in marks(transport)] == [True, True]


def test_states_that_are_lost_before_an_inference_is_sent_are_told_until_the_request_begins_anew(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    def lose(_: FakeExecution) -> None:
        raise SessionLost("the session that kept them is gone")

    request_.infer(ONES)
    transport.answer = lose
    for _ in range(2):
        with pytest.raises(SessionLost, match=r"no longer has them \(the session .* is gone\); call reset_state\(\)"):
            request_.infer(ONES)
    assert len(transport.executions) == 2
    transport.answer = answer
    request_.reset_state()
    request_.infer(ONES)
    assert transport.executions[-1].header.sequence == SequenceMark(1, is_start=True)
    assert transport.states.calls == []


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_resetting_what_turns_out_to_be_lost_begins_anew(
    loss: InferwireError, transport: FakeTransport, request_: ov.InferRequest
) -> None:
    request_.infer(ONES)
    transport.states.error = loss
    with pytest.raises(SessionLost, match="call reset_state"):
        request_.query_state()[0].reset()
    request_.reset_state()
    request_.infer(ONES)
    request_.reset_state()
    request_.infer(ONES)
    assert [mark and mark.is_start for mark in marks(transport)] == [True, True, True]


def test_a_model_without_states_has_none(description: ModelDescription) -> None:
    compiled = ov.Core(transport=FakeTransport(description)).served_model("double")
    assert compiled.query_state() == []
    compiled.reset_state()
    assert compiled.create_infer_request().query_state() == []
