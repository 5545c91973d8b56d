"""What executions ask for is worked out once for a stream, and is the same for whatever comes with it."""

from __future__ import annotations

import pytest

from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_server.core.sessions import Session
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.service.values import StoredTensor, UploadedModel
from inferwire_server.transport.v1.plans import Plan, Plans, decode_execution

SESSION = Session("s", "test")
U8 = types_pb2.ELEMENT_TYPE_U8


def execution(rows: int = 1) -> pb.Execution:
    """Make an execution with one u8 input of so many rows."""
    header = types_pb2.TensorHeader(element_type=U8, shape=[rows, 2])
    return pb.Execution(target=pb.Target(served="m"), inputs=[header])


def data_of(given: object) -> bytes:
    assert isinstance(given, Tensor)
    return bytes(given.data)


def test_the_plan_of_a_head_is_made_once() -> None:
    plans = Plans(None)
    assert plans.of(execution()) is plans.of(execution())
    assert plans.of(execution()) is not plans.of(execution(rows=2))


def test_each_execution_of_a_plan_has_its_own_bytes() -> None:
    plan = Plans(None).of(execution())
    first, second = plan.inference([b"ab"]), plan.inference([b"cd"])
    assert [data_of(given.inputs[0][1]) for given in (first, second)] == [b"ab", b"cd"]


def test_plans_are_a_sessions_own() -> None:
    wanted = pb.Execution(target=pb.Target(compiled="m"))
    other = Session("other", "test")
    assert Plans(SESSION).of(wanted).inference([]).wanted.target == UploadedModel("m", SESSION)
    assert Plans(other).of(wanted).inference([]).wanted.target == UploadedModel("m", other)


def test_a_long_head_is_read_anew() -> None:
    plans, long = Plans(None), execution()
    long.outputs.extend(range(3000))
    assert plans.of(long) is not plans.of(long)
    assert plans.of(long) == plans.of(long)


def test_what_is_wrong_with_a_head_is_said_each_time() -> None:
    plans = Plans(None)
    for _ in range(2):
        with pytest.raises(ServingError, match="the call names no model"):
            plans.of(pb.Execution())


def test_a_stack_is_one_inference_with_the_rows_of_all() -> None:
    stack = Plan.of(execution(), None).stack([b"abcd"], 2)
    assert stack is not None
    ((_, tensor),) = stack.inputs
    assert isinstance(tensor, Tensor)
    assert (stack.executions, tensor.shape, tensor.data) == (2, (2, 2), b"abcd")


@pytest.mark.parametrize("others", [[], [(1, 2)]], ids=["alone", "beside one that has rows"])
def test_inputs_without_dimensions_have_no_rows_to_stack(others: list[tuple[int, ...]]) -> None:
    shapes = [*others, ()]
    headers = [types_pb2.TensorHeader(index=at, element_type=U8, shape=shape) for at, shape in enumerate(shapes)]
    plan = Plan.of(pb.Execution(target=pb.Target(served="m"), inputs=headers), None)
    raw = [*(b"abcd" for _ in others), b"xy"]
    assert plan.stack(raw, 2) is None
    first, second = plan.each(raw, 2)
    assert [data_of(inference.inputs[-1][1]) for inference in (first, second)] == [b"x", b"y"]


def test_an_execution_of_a_sequence_is_no_stack() -> None:
    wanted = execution()
    wanted.sequence.id = 1
    plan = Plan.of(wanted, SESSION)
    assert plan.stack([b"abcd"], 2) is None
    with pytest.raises(ServingError, match="a stack of 2 executions names a sequence, kept tensors or lent memory"):
        plan.each([b"abcd"], 2)


def test_an_input_that_is_kept_needs_no_bytes() -> None:
    wanted = execution()
    wanted.inputs.add(index=1, stored=types_pb2.StoredTensor(id=7))
    plan = Plan.of(wanted, SESSION)
    assert plan.stack([b"abcd"], 2) is None
    (_, sent), (_, kept) = plan.inference([b"ab"]).inputs
    assert (data_of(sent), kept) == (b"ab", StoredTensor(SESSION, 7))


def test_bytes_that_no_input_has_are_refused() -> None:
    with pytest.raises(ServingError, match="the execution has 1 inputs, but the message has bytes of 2"):
        decode_execution(execution(), [b"ab", b"cd"], None)
