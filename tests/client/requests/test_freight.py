"""What an execution takes along is made once and used again: whatever a user changes meanwhile must still be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.client.conftest import describe, double

import inferwire as ov
from inferwire.requests.infer_request import InferRequest
from inferwire.requests.request_state import RequestState
from inferwire.requests.run import Run
from inferwire.transport.executions import ExecutionHeader, Outcome, OutputBytes, Target
from inferwire.transport.fake_transport import FakeExecution, FakeOutput, FakeTransport
from inferwire_proto.element_types import BY_NAME

ONES: np.ndarray[Any, Any] = np.ones((1, 3), np.float32)
HEADER = ExecutionHeader(Target("double", is_served=True), ())


@pytest.fixture
def rows() -> FakeTransport:
    """A server with a model that doubles any number of rows."""
    return FakeTransport(describe({"data": [-1, 3]}, [-1, 3]), answer=double)


@pytest.fixture
def of_rows(rows: FakeTransport) -> InferRequest:
    return ov.Core(transport=rows).served_model("double").create_infer_request()


def shapes_of(transport: FakeTransport) -> list[tuple[int, ...]]:
    return [execution.header.inputs[0].shape for execution in transport.executions]


def test_executions_that_are_alike_share_their_header(of_rows: InferRequest, rows: FakeTransport) -> None:
    for factor in (1, 2):
        of_rows.infer(ONES * factor)
    first, second = rows.executions
    assert first.header is second.header
    assert (first.inputs, second.inputs) == ((ONES.tobytes(),), ((ONES * 2).tobytes(),))


def test_a_tensor_that_takes_another_shape_is_sent_with_it(of_rows: InferRequest, rows: FakeTransport) -> None:
    of_rows.infer(ONES)
    of_rows.get_input_tensor().shape = [2, 3]
    of_rows.get_input_tensor().data[:] = 5
    assert of_rows.infer()[0].tolist() == [[10, 10, 10]] * 2
    of_rows.infer(ONES)
    assert shapes_of(rows) == [(1, 3), (2, 3), (1, 3)]


def test_a_region_with_gaps_is_read_anew_by_every_execution(of_rows: InferRequest) -> None:
    whole = ov.Tensor(np.zeros((2, 4), np.float32))
    of_rows.set_input_tensor(ov.Tensor(whole, [0, 0], [2, 3]))
    for value in (1, 2, 3):
        whole.data[:] = value
        assert of_rows.infer()[0].tolist() == [[2 * value] * 3] * 2


def test_a_batch_that_is_set_takes_the_place_of_the_tensor(of_rows: InferRequest, rows: FakeTransport) -> None:
    for _ in range(2):
        of_rows.infer(ONES)
    of_rows.set_input_tensors([ov.Tensor(ONES), ov.Tensor(ONES * 2)])
    assert of_rows.infer()[0].tolist() == [[2, 2, 2], [4, 4, 4]]
    assert shapes_of(rows) == [(1, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize("key", [0, "data"])
def test_inputs_go_to_the_tensor_that_was_set_last(of_rows: InferRequest, key: int | str) -> None:
    of_rows.infer({key: ONES})
    tensor = ov.Tensor(np.zeros((1, 3), np.float32))
    of_rows.set_input_tensor(tensor)
    of_rows.infer({key: ONES * 2})
    assert tensor.data.tolist() == [[2, 2, 2]]


def test_the_tensor_of_an_output_is_the_one_that_was_set_last(of_rows: InferRequest) -> None:
    of_rows.infer({0: ONES})
    before = of_rows.get_output_tensor(0)
    of_rows.set_output_tensor(ov.Tensor(np.zeros((1, 3), np.float32)))
    of_rows.infer({0: ONES * 2})
    assert (of_rows.get_output_tensor(0).data[0, 0], before.data[0, 0]) == (4, 2)


def test_a_number_that_equals_a_position_is_none(of_rows: InferRequest) -> None:
    of_rows.infer({0: ONES})
    with pytest.raises(TypeError, match=r"Incompatible key type for input: 0\.0"):
        of_rows.infer({0.0: ONES})


def test_an_array_of_no_dimensions_takes_the_shape_of_the_tensor() -> None:
    transport = FakeTransport(describe({"data": [1]}, [1]), answer=double)
    request = ov.Core(transport=transport).served_model("double").create_infer_request()
    for _ in range(2):
        assert request.infer({"data": np.array(5, np.float32)})[0].tolist() == [10]


def keeping(execution: FakeExecution) -> None:
    data = None if execution.header.keeps else ONES.tobytes()
    execution.finish(FakeOutput(BY_NAME["f32"], (1, 3), data))


def test_outputs_are_postponed_from_when_they_are_to_be(request_: InferRequest, transport: FakeTransport) -> None:
    transport.answer = keeping
    for postpone in (False, True, False):
        request_.postpone_outputs = postpone
        request_.start_async(ONES)
        request_.wait()
    assert [len(execution.header.keeps) for execution in transport.executions] == [0, 1, 0]


def test_an_output_that_somebody_may_still_read_keeps_its_name(
    request_: InferRequest, transport: FakeTransport
) -> None:
    transport.answer = keeping
    request_.postpone_outputs = True
    unread = [request_.infer(ONES) for _ in range(2)]
    (first,), (second,) = (execution.header.keeps for execution in transport.executions)
    assert len(unread) == 2
    assert first != second


@pytest.mark.parametrize("given", ["no", 0, None])
def test_outputs_are_postponed_or_not(request_: InferRequest, given: Any) -> None:
    with pytest.raises(TypeError, match=f"postpone_outputs is {given!r}, expected True or False"):
        request_.postpone_outputs = given
    assert request_.postpone_outputs is False


@pytest.mark.parametrize(("key", "is_there"), [("out", True), (0, True), (-1, True), ("zz", False), (1, False)])
def test_whether_there_is_an_output_is_told_without_fetching_it(
    request_: InferRequest, transport: FakeTransport, key: Any, *, is_there: bool
) -> None:
    transport.answer = keeping
    request_.postpone_outputs = True
    results = request_.infer(ONES)
    assert (key in results) is is_there
    assert request_.model_outputs[0] in results
    assert transport.tensors.gets == []
    request_.infer(ONES)
    assert [len(execution.header.keeps) for execution in transport.executions] == [1, 1]


def test_a_cancel_while_an_execution_is_being_sent_reaches_it(request_: InferRequest, transport: FakeTransport) -> None:
    transport.answer = lambda _: request_.cancel()
    request_.start_async(ONES)
    assert transport.executions[0].is_cancelled


def deaf(outcome: Outcome, data: OutputBytes) -> None:
    del outcome


def stored(run: Run, outcome: Outcome, data: OutputBytes) -> None:
    del run, outcome


@pytest.mark.parametrize("is_synchronous", [False, True])
def test_what_was_answered_leads_back_to_nothing_on_the_transport(*, is_synchronous: bool) -> None:
    state, run = RequestState(), Run(is_synchronous=is_synchronous)
    run.execution = execution = FakeExecution(HEADER, (), deaf)
    state.claim(run)
    state.begin(run)
    if is_synchronous:
        assert state.answer(run, Outcome(), ())
    else:
        assert state.finish(run, Outcome(), (), stored)
    assert run.execution is None
    assert not execution.is_cancelled


@pytest.mark.parametrize("infer", [InferRequest.infer, InferRequest.start_async])
def test_what_is_answered_while_it_is_sent_leads_back_to_nothing_on_the_transport(
    of_rows: InferRequest, rows: FakeTransport, infer: Callable[[InferRequest, Any], object]
) -> None:
    infer(of_rows, ONES)
    run = of_rows._state.current  # pyright: ignore[reportPrivateUsage]
    assert run is not None
    assert run.execution is None
    assert not rows.executions[0].is_cancelled
