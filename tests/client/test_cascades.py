"""What travels where one request reads what another has left: nothing, until somebody looks at it here."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.client.conftest import describe
from tests.waiting import LIMIT_S, until

import inferwire as ov
from inferwire.graph.described import PortDescription
from inferwire.transport.executions import StoredBox
from inferwire.transport.fake_transport import FakeExecution, FakeOutput, FakeTensors, FakeTransport
from inferwire_proto.element_types import BY_NAME

ONES: np.ndarray[Any, Any] = np.ones((1, 3), np.float32)
Answer = Callable[[FakeExecution], None]


@pytest.fixture
def answering(transport: FakeTransport) -> FakeTransport:
    """A server that doubles, and keeps what it is told to keep."""
    transport.answer = doubling(transport)
    return transport


def doubling(transport: FakeTransport) -> Answer:
    def answer(execution: FakeExecution) -> None:
        (spec,) = execution.header.inputs
        given = execution.inputs[0] if spec.stored is None else transport.tensors.contents[spec.stored.id]
        doubled = (np.frombuffer(given, np.float32) * 2).tobytes()
        for _, tensor_id in execution.header.keeps:
            transport.tensors.contents[tensor_id] = doubled
        data = None if execution.header.keeps else doubled
        execution.finish(FakeOutput(BY_NAME["f32"], spec.shape, data))

    return answer


@pytest.fixture
def chain(answering: FakeTransport) -> list[ov.InferRequest]:
    """Two requests, the second of which reads what the first leaves."""
    compiled = ov.Core(transport=answering).served_model("double")
    requests = [compiled.create_infer_request() for _ in range(2)]
    for first, second in pairwise(requests):
        second.set_input_tensor(first.get_output_tensor())
    return requests


def run(request: ov.InferRequest, inputs: Any = None) -> None:
    request.start_async(inputs)
    request.wait()


def test_the_second_stage_reads_on_the_server_what_the_first_left_there(
    answering: FakeTransport, chain: list[ov.InferRequest]
) -> None:
    run(chain[0], ONES)
    run(chain[1])
    first, second = answering.executions
    ((output, kept),) = first.header.keeps
    assert output == 0
    assert second.header.inputs[0].stored == StoredBox(kept)
    assert second.inputs == ()
    assert chain[1].get_output_tensor().data.tolist() == [[4, 4, 4]]
    assert answering.tensors.gets == []


def test_the_same_name_and_the_same_headers_serve_every_round(
    answering: FakeTransport, chain: list[ov.InferRequest]
) -> None:
    for value in range(3):
        run(chain[0], ONES * value)
        run(chain[1])
        assert chain[1].results[0].tolist() == [[4 * value] * 3]
    assert len({execution.header for execution in answering.executions}) == 2
    assert len(answering.tensors.contents) == 1


def test_results_that_nobody_looks_at_are_not_fetched(answering: FakeTransport, chain: list[ov.InferRequest]) -> None:
    for value in range(4):
        results = chain[0].infer(ONES * value)
        assert chain[1].infer()[0].tolist() == [[4 * value] * 3]
        assert len(results) == 1
    assert answering.tensors.gets == []
    # Those of one round may be read until those of the next are there.
    assert len(answering.tensors.contents) == 2


def test_results_are_those_of_their_own_inference_however_late_they_are_read(chain: list[ov.InferRequest]) -> None:
    results = [chain[0].infer(ONES * value) for value in range(4)]
    assert [each[0].tolist() for each in results] == [[[2 * value] * 3] for value in range(4)]
    assert chain[1].infer()[0].tolist() == [[12, 12, 12]]


def test_a_result_is_fetched_once_and_is_a_copy(answering: FakeTransport, chain: list[ov.InferRequest]) -> None:
    results = chain[0].infer(ONES)
    assert results[0] is results["out"]
    assert results.to_tuple()[0] is results[0]
    results[0][:] = 7
    assert chain[0].get_output_tensor().data.tolist() == [[2, 2, 2]]
    assert len(answering.tensors.gets) == 1


LOOKS: dict[str, Callable[[ov.InferRequest], object]] = {
    "data": lambda request: request.get_output_tensor().data,
    "infer": lambda request: request.infer(ONES)[0],
    "infer sharing": lambda request: request.infer(ONES, share_outputs=True)["out"],
    "results": lambda request: list(request.results.values()),
    "repr": lambda request: repr(request.results),
    "copy_to": lambda request: request.output_tensors[0].copy_to(ov.Tensor(ONES)),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_what_somebody_has_looked_at_is_sent_from_then_on(
    look: Callable[[ov.InferRequest], object], answering: FakeTransport, chain: list[ov.InferRequest]
) -> None:
    run(chain[0], ONES)
    look(chain[0])
    run(chain[0], ONES)
    run(chain[1])
    assert answering.executions[-2].header.keeps == ()
    assert answering.executions[-1].header.inputs[0].stored is None
    assert len(answering.tensors.gets) == 1


def test_a_view_from_before_sees_what_comes_later(answering: FakeTransport, compiled: ov.CompiledModel) -> None:
    first, second = compiled.create_infer_request(), compiled.create_infer_request()
    view = first.get_output_tensor().data
    second.set_input_tensor(first.get_output_tensor())
    run(first, ONES)
    assert view.tolist() == [[2, 2, 2]]
    assert answering.executions[0].header.keeps == ()


def test_requests_that_have_run_alone_may_be_linked_later(answering: FakeTransport, compiled: ov.CompiledModel) -> None:
    first, second = compiled.create_infer_request(), compiled.create_infer_request()
    first.infer(ONES)
    second.set_input_tensor(first.get_output_tensor())
    assert second.infer()[0].tolist() == [[4, 4, 4]]
    first.infer(ONES * 2)
    assert second.infer()[0].tolist() == [[8, 8, 8]]
    assert [len(execution.inputs) for execution in answering.executions] == [1, 1, 1, 0]


def test_what_is_written_here_counts_from_then_on(answering: FakeTransport, chain: list[ov.InferRequest]) -> None:
    run(chain[0], ONES)
    chain[0].get_output_tensor().data[0, 0] = 5
    run(chain[1])
    assert chain[1].results[0].tolist() == [[10, 4, 4]]
    assert answering.executions[1].header.inputs[0].stored is None


def test_what_replaces_everything_needs_not_be_fetched_first(
    answering: FakeTransport, chain: list[ov.InferRequest]
) -> None:
    run(chain[0], ONES)
    chain[0].get_output_tensor().copy_from(ov.Tensor(ONES * 3))
    assert chain[1].infer()[0].tolist() == [[6, 6, 6]]
    assert answering.tensors.gets == []


def test_a_request_may_read_what_it_left_itself(answering: FakeTransport, compiled: ov.CompiledModel) -> None:
    request = compiled.create_infer_request()
    request.get_output_tensor().copy_from(ov.Tensor(ONES))
    request.set_input_tensor(request.get_output_tensor())
    for _ in range(3):
        run(request)
    assert request.results[0].tolist() == [[8, 8, 8]]
    assert [len(execution.inputs) for execution in answering.executions] == [1, 0, 0]


def test_a_region_is_named_by_its_place_in_the_whole(answering: FakeTransport) -> None:
    rows = replace(answering.model, inputs=(dynamic(answering.model.inputs[0]),))
    answering.model = replace(rows, outputs=(dynamic(answering.model.outputs[0]),))
    compiled = ov.Core(transport=answering).served_model("rows")
    first, second = compiled.create_infer_request(), compiled.create_infer_request()
    second.set_input_tensor(first.get_output_tensor())
    run(first, np.ones((4, 3), np.float32))
    outer = ov.Tensor(first.get_output_tensor(), [1, 0], [4, 3])
    second.set_input_tensor(ov.Tensor(outer, [1, 0], [2, 3]))
    second.start_async()
    (kept,) = (tensor_id for _, tensor_id in answering.executions[0].header.keeps)
    assert answering.executions[1].header.inputs[0].stored == StoredBox(kept, (2, 0), (3, 3))
    assert answering.executions[1].header.inputs[0].shape == (1, 3)


def dynamic(described: PortDescription) -> PortDescription:
    return replace(described, partial_shape=ov.PartialShape([-1, 3]))


def test_an_output_for_memory_of_the_users_is_always_sent(answering: FakeTransport, compiled: ov.CompiledModel) -> None:
    array = np.zeros((1, 3), np.float32)
    first, second = compiled.create_infer_request(), compiled.create_infer_request()
    first.set_output_tensor(ov.Tensor(array, shared_memory=True))
    second.set_input_tensor(first.get_output_tensor())
    run(first, ONES)
    assert array.tolist() == [[2, 2, 2]]
    assert answering.executions[0].header.keeps == ()


@pytest.fixture
def other(answering: FakeTransport) -> FakeTransport:
    """Another server of the same model."""
    other = FakeTransport(answering.model)
    other.answer = doubling(other)
    return other


@pytest.fixture
def elsewhere(other: FakeTransport) -> ov.InferRequest:
    return ov.Core(transport=other).served_model("double").create_infer_request()


def test_another_server_is_sent_what_the_first_one_keeps(
    answering: FakeTransport, chain: list[ov.InferRequest], elsewhere: ov.InferRequest
) -> None:
    elsewhere.set_input_tensor(chain[0].get_output_tensor())
    run(chain[0], ONES)
    assert elsewhere.infer()[0].tolist() == [[4, 4, 4]]
    assert len(answering.tensors.gets) == 1


def test_another_server_is_sent_what_its_own_answer_then_replaces(
    other: FakeTransport, chain: list[ov.InferRequest], elsewhere: ov.InferRequest
) -> None:
    tensor = chain[0].get_output_tensor()
    elsewhere.set_input_tensor(tensor)
    elsewhere.set_output_tensor(tensor)
    run(chain[0], ONES)
    elsewhere.infer()
    assert other.executions[0].inputs == ((ONES * 2).tobytes(),)
    assert tensor.data.tolist() == [[4, 4, 4]]


@dataclass(slots=True)
class SlowTensors(FakeTensors):
    """Tensors that are given only once they may be.

    Attributes:
        is_asked: Set once somebody asks for one.
        may_give: Set to have them given.
    """

    is_asked: threading.Event = field(default_factory=threading.Event)
    may_give: threading.Event = field(default_factory=threading.Event)

    def get(self, box: StoredBox) -> bytes:
        self.is_asked.set()
        assert self.may_give.wait(LIMIT_S)
        return FakeTensors.get(self, box)


@pytest.fixture
def far() -> FakeTransport:
    """A server with a model of any number of rows, which takes its time to give what it keeps."""
    far = FakeTransport(describe({"data": [-1, 3]}, [-1, 3]), tensors=SlowTensors())
    far.answer = doubling(far)
    return far


@pytest.fixture
def near(far: FakeTransport) -> FakeTransport:
    """Another server with that model."""
    near = FakeTransport(far.model)
    near.answer = doubling(near)
    return near


def request_of(transport: FakeTransport) -> ov.InferRequest:
    return ov.Core(transport=transport).served_model("double").create_infer_request()


async def asked(transport: FakeTransport) -> SlowTensors:
    """Let the loop run until somebody asks a slow server for a tensor."""
    tensors = transport.tensors
    assert isinstance(tensors, SlowTensors)
    await until(tensors.is_asked.is_set)
    return tensors


def remote_ones(transport: FakeTransport) -> ov.RemoteTensor:
    tensor = ov.Core(transport=transport).create_context("CPU").create_tensor(ov.Type.f32, ov.Shape([1, 3]), {})
    tensor.copy_from(ov.Tensor(ONES * 2))
    return tensor


FAR_INPUTS: dict[str, Callable[[ov.InferRequest, ov.InferRequest, FakeTransport], None]] = {
    "an output": lambda first, second, _: second.set_input_tensor(first.get_output_tensor()),
    "a region of one": lambda first, second, _: second.set_input_tensor(
        ov.Tensor(first.get_output_tensor(), ov.Coordinate([0, 0]), ov.Coordinate([1, 3]))
    ),
    "a remote tensor": lambda _, second, far: second.set_input_tensor(remote_ones(far)),
    "a batch with one": lambda first, second, _: second.set_input_tensors(
        [
            first.get_output_tensor(),
            ov.Tensor(ONES * 2),
        ]
    ),
}


@pytest.mark.parametrize("set_input", FAR_INPUTS.values(), ids=FAR_INPUTS.keys())
async def test_an_event_loop_runs_while_another_server_is_asked_for_inputs(
    far: FakeTransport,
    near: FakeTransport,
    set_input: Callable[[ov.InferRequest, ov.InferRequest, FakeTransport], None],
) -> None:
    first, second = request_of(far), request_of(near)
    first.postpone_outputs = True
    run(first, ONES)
    set_input(first, second, far)
    task = asyncio.create_task(second.infer_async())
    tensors = await asked(far)
    assert near.executions == []
    tensors.may_give.set()
    assert np.unique((await task)[0]).tolist() == [4]
    assert (await second.infer_async())[0].tolist() == (await task)[0].tolist()


async def test_what_is_cancelled_while_another_server_is_asked_for_inputs_is_not_sent_and_changes_no_tensor(
    far: FakeTransport, near: FakeTransport
) -> None:
    first, second = request_of(far), request_of(near)
    output = first.get_output_tensor()
    second.set_input_tensor(output)
    run(first, ONES)
    task = asyncio.create_task(second.infer_async())
    tensors = await asked(far)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    run(first, ONES * 5)
    tensors.may_give.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert near.executions == []
    assert output.data.tolist() == [[10, 10, 10]]
    assert second.infer()[0].tolist() == [[20, 20, 20]]


def test_what_another_server_has_is_fetched_once(far: FakeTransport, near: FakeTransport) -> None:
    first, second = request_of(far), request_of(near)
    second.set_input_tensor(first.get_output_tensor())
    run(first, ONES)
    assert isinstance(far.tensors, SlowTensors)
    far.tensors.may_give.set()
    assert [second.infer()[0].tolist() for _ in range(3)] == [[[4, 4, 4]]] * 3
    assert len(far.tensors.gets) == 1


def test_outputs_stay_where_they_are_postponed_until_somebody_looks(
    answering: FakeTransport, request_: ov.InferRequest
) -> None:
    request_.postpone_outputs = True
    run(request_, ONES)
    run(request_, ONES * 2)
    assert answering.tensors.gets == []
    assert request_.results[0].tolist() == [[4, 4, 4]]
    run(request_, ONES * 3)
    assert request_.results[0].tolist() == [[6, 6, 6]]
    assert len(answering.tensors.gets) == 1


def test_the_server_is_told_what_is_not_needed_any_more(answering: FakeTransport, chain: list[ov.InferRequest]) -> None:
    results = chain[0].infer(ONES)
    chain.clear()
    gc.collect()
    assert answering.tensors.released == []
    assert results[0].tolist() == [[2, 2, 2]]
    assert answering.tensors.released == [1]


def test_names_beyond_those_of_unread_results_are_freed(answering: FakeTransport, chain: list[ov.InferRequest]) -> None:
    unread = [chain[0].infer(ONES) for _ in range(5)]
    assert len(answering.tensors.contents) == 5
    del unread
    run(chain[0], ONES)
    assert sorted(answering.tensors.released) == [2, 3, 4, 5]


def test_what_an_execution_reads_stays_until_it_has_ended(
    transport: FakeTransport, chain: list[ov.InferRequest]
) -> None:
    run(chain[0], ONES)
    transport.answer = None
    chain[1].start_async()
    second = chain.pop()
    del chain[:]
    gc.collect()
    assert transport.tensors.released == []
    transport.executions[1].finish(FakeOutput(BY_NAME["f32"], (1, 3), ONES.tobytes()))
    second.wait()
    second.set_input_tensor(ov.Tensor(ONES))
    assert transport.tensors.released == [1]


def test_an_output_that_the_server_would_not_keep_is_taken_as_it_comes(
    transport: FakeTransport, chain: list[ov.InferRequest]
) -> None:
    transport.answer = lambda execution: execution.finish(FakeOutput(BY_NAME["f32"], (1, 3), ONES.tobytes()))
    run(chain[0], ONES)
    run(chain[1])
    assert transport.executions[0].header.keeps
    assert transport.executions[1].inputs == (ONES.tobytes(),)


def test_what_is_lost_says_so_and_what_to_do(transport: FakeTransport, chain: list[ov.InferRequest]) -> None:
    run(chain[0], ONES)
    transport.answer = lambda execution: execution.fail(ov.TensorLost("tensor 1 is not kept in this session"))
    with pytest.raises(ov.SessionLost, match=r"lost a tensor .*tensor 1 is not kept.* run the inference again"):
        chain[1].infer()


def test_an_answer_without_an_output_that_was_to_be_sent_is_refused(
    transport: FakeTransport, request_: ov.InferRequest
) -> None:
    transport.answer = lambda execution: execution.finish(FakeOutput(BY_NAME["f32"], (1, 3), None))
    with pytest.raises(RuntimeError, match="the server kept output 0, which it was to send"):
        request_.infer(ONES)
