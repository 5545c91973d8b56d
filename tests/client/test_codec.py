"""Stacked results as one execution after the other."""

from __future__ import annotations

from inferwire.transport import codec
from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.inferwire.v1.inference_pb2 import ExecutionResult
from inferwire_proto.inferwire.v1.types_pb2 import ElementType, TensorHeader


def header(element_type: str, *shape: int) -> TensorHeader:
    return TensorHeader(element_type=ElementType.ValueType(BY_NAME[element_type].wire), shape=shape)


def test_a_stack_of_results_is_cut_by_what_each_output_is() -> None:
    result = ExecutionResult(ids=[1, 2], outputs=[header("u8", 3), header("string", 1)])
    stacks = [b"abcdef", strings.pack([b"one", b""])]
    first, second = (list(map(bytes, outputs)) for outputs in codec.unstack(result, stacks))
    assert first == [b"abc", strings.pack([b"one"])]
    assert second == [b"def", strings.pack([b""])]


def test_a_stack_without_outputs_is_as_many_empty_results() -> None:
    assert list(codec.unstack(ExecutionResult(ids=[1, 2, 3]), [])) == [(), (), ()]
