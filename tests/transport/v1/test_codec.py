"""What is read of an execution is what was written, and a job's result says what the job did."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_proto import strings
from inferwire_proto.element_types import BY_WIRE, ELEMENT_TYPES, ElementType
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.tensors import Tensor
from inferwire_server.service.values import Inference, ServedModel
from inferwire_server.transport.v1.codec import encode_result
from inferwire_server.transport.v1.plans import Plan, decode_execution

element_types = st.sampled_from(ELEMENT_TYPES)
shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@st.composite
def tensors(draw: st.DrawFn, element_type: ElementType, shape: tuple[int, ...]) -> Tensor:
    """Draw a tensor of a type and shape."""
    if element_type.is_string:
        count = 1
        for length in shape:
            count *= length
        words = draw(st.lists(st.binary(max_size=5), min_size=count, max_size=count))
        return Tensor(element_type, shape, strings.pack(words))
    size = element_type.byte_size(shape)
    return Tensor(element_type, shape, draw(st.binary(min_size=size, max_size=size)))


@st.composite
def stacks(draw: st.DrawFn) -> list[list[Tensor]]:
    """Draw one to four executions of equal types and shapes."""
    ports = draw(st.lists(st.tuples(element_types, shapes), max_size=3))
    return [[draw(tensors(*port)) for port in ports] for _ in range(draw(st.integers(1, 4)))]


def header(tensor: Tensor, index: int) -> types_pb2.TensorHeader:
    kind = types_pb2.ElementType.ValueType(tensor.element_type.wire)
    return types_pb2.TensorHeader(index=index, element_type=kind, shape=tensor.shape)


def values(inputs: Any) -> list[tuple[int | str, ElementType, tuple[int, ...], bytes]]:
    return [(key, tensor.element_type, tensor.shape, bytes(tensor.data)) for key, tensor in inputs]


@given(stacks())
def test_a_stack_is_taken_apart_as_it_was_put_together(stack: list[list[Tensor]]) -> None:
    execution = pb.Execution(
        target=pb.Target(served="m"),
        inputs=[header(tensor, index) for index, tensor in enumerate(stack[0])],
    )
    raw = [b"".join(bytes(tensor.data) for tensor in column) for column in zip(*stack, strict=True)]
    inferences = Plan.of(execution, None).each(raw, len(stack))
    assert [values(inference.inputs) for inference in inferences] == [values(enumerate(inputs)) for inputs in stack]


@given(
    st.text(min_size=1, max_size=5),
    st.text(max_size=3),
    st.lists(st.integers(0, 2**32 - 1), max_size=3),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
)
def test_what_surrounds_the_inputs_is_read(
    name: str, version: str, outputs: list[int], priority: int, timeout_us: int, signature: int
) -> None:
    execution = pb.Execution(
        target=pb.Target(served=name, version=version, signature=signature),
        outputs=outputs,
        scheduling=pb.Scheduling(priority=priority, timeout_us=timeout_us),
    )
    wanted = decode_execution(execution, [], None).wanted
    assert wanted.target == ServedModel(name, version)
    assert (wanted.outputs, wanted.priority, wanted.signature) == (tuple(outputs), priority, signature)
    assert wanted.timeout_s == (timeout_us / 1e6 if timeout_us else None)


@given(st.lists(element_types.flatmap(lambda kind: shapes.flatmap(lambda shape: tensors(kind, shape))), max_size=3))
def test_a_result_carries_the_outputs_and_their_positions(outputs: list[Tensor]) -> None:
    positions = tuple(range(7, 7 + len(outputs)))
    job = Job("m", Work((), positions), submitted_at=1.0)
    job.start(1.25)
    job.finish(tuple(outputs), 1.75)
    written, buffers = encode_result(job, job.result())
    result = pb.ExecutionResult.FromString(written)
    assert [bytes(buffer) for buffer in buffers] == [bytes(tensor.data) for tensor in outputs]
    described = [(h.index, BY_WIRE[h.element_type], tuple(h.shape)) for h in result.outputs]
    assert described == [(p, t.element_type, t.shape) for p, t in zip(positions, outputs, strict=True)]
    assert (result.timings.queue_us, result.timings.inference_us, result.timings.total_us) == (
        250_000,
        500_000,
        750_000,
    )


def data_of(inference: Inference) -> bytes | memoryview:
    ((_, tensor),) = inference.inputs
    assert isinstance(tensor, Tensor)
    return tensor.data


@pytest.mark.parametrize(
    "packed", [strings.pack([b"ab", b"cd"])[:-4], strings.pack([b"ab"]), strings.pack([b"ab"] * 3)]
)
def test_of_a_stack_of_strings_the_last_gets_what_is_left(packed: bytes) -> None:
    stacked = pb.Execution(target=pb.Target(served="m"))
    stacked.inputs.add(element_type=types_pb2.ELEMENT_TYPE_STRING, shape=[1])
    first, second = Plan.of(stacked, None).each([packed], 2)
    assert bytes(data_of(first)) == strings.pack([b"ab"])
    with pytest.raises(ValueError, match="bytes"):
        strings.unpack(data_of(second), 1)
