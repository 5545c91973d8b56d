"""Stacked results as one execution after the other."""

from __future__ import annotations

from inferwire.transport import codec
from inferwire.transport.executions import Outcome, OutputBytes
from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.inferwire.v1.inference_pb2 import ExecutionResult
from inferwire_proto.inferwire.v1.types_pb2 import ERROR_CODE_CANCELLED, ElementType, Error, TensorHeader, Timings


def header(element_type: str, *shape: int) -> TensorHeader:
    return TensorHeader(element_type=ElementType.ValueType(BY_NAME[element_type].wire), shape=shape)


def outputs_of(outcome: Outcome, each: OutputBytes) -> list[tuple[str, tuple[int, ...], bytes]]:
    pairs = zip(outcome.forms, each, strict=True)
    return [(form.element_type.name, form.shape, bytes(data or b"")) for form, data in pairs]


def test_a_stack_of_results_is_cut_by_what_each_output_is() -> None:
    timings = Timings(queue_us=1000, inference_us=2000, total_us=4000)
    result = ExecutionResult(ids=[1, 2], outputs=[header("u8", 3), header("string", 1)], timings=timings)
    stacks = [b"abcdef", strings.pack([b"one", b""])]
    outcome, (first, second) = codec.decode_result(result, stacks, 2)
    assert outputs_of(outcome, first) == [("u8", (3,), b"abc"), ("string", (1,), strings.pack([b"one"]))]
    assert outputs_of(outcome, second) == [("u8", (3,), b"def"), ("string", (1,), strings.pack([b""]))]
    assert outcome.timings == (1.0, 2.0, 4.0, 0.0)
    assert outcome.timings.seen_by_client(5.0).wire_ms == 1.0


def test_an_error_of_a_stack_is_that_of_each() -> None:
    result = ExecutionResult(ids=[1, 2], error=Error(code=ERROR_CODE_CANCELLED, message="stopped"))
    outcome, outputs = codec.decode_result(result, [], 2)
    assert (str(outcome.error), list(outputs)) == ("stopped", [(), ()])


def test_a_stack_without_outputs_is_as_many_empty_results() -> None:
    outcome, outputs = codec.decode_result(ExecutionResult(ids=[1, 2, 3]), [], 3)
    assert (list(outcome.forms), outcome.error, list(outputs)) == ([], None, [()] * 3)
