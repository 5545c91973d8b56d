"""Stacked results as one execution after the other."""

from __future__ import annotations

import pytest

import inferwire as ov
from inferwire.transport import codec, model_codec
from inferwire.transport.executions import Outcome, OutputBytes
from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.inferwire.v1.inference_pb2 import ExecutionResult
from inferwire_proto.inferwire.v1.models_pb2 import GetRuntimeModelResponse, ModelInfo, RuntimeNode
from inferwire_proto.inferwire.v1.types_pb2 import (
    ERROR_CODE_CANCELLED,
    ElementType,
    Error,
    Port,
    PropertyList,
    PropertyMap,
    PropertyValue,
    TensorHeader,
    Timings,
)

NEW_TYPE = ElementType.ValueType(99)
"""An element type of a later version."""

NEW_KIND = PropertyValue.FromString(b"\xa2\x06\x03new")
"""A property's value of a kind of a later version: its field 100 is none of today's."""


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
    assert outcome.timings.seen_by_client(5.2065229).wire_ms == 1.207  # as people read it, and as exact as the others


def test_an_error_of_a_stack_is_that_of_each() -> None:
    result = ExecutionResult(ids=[1, 2], error=Error(code=ERROR_CODE_CANCELLED, message="stopped"))
    outcome, outputs = codec.decode_result(result, [], 2)
    assert (str(outcome.error), list(outputs)) == ("stopped", [(), ()])


def test_a_stack_without_outputs_is_as_many_empty_results() -> None:
    outcome, outputs = codec.decode_result(ExecutionResult(ids=[1, 2, 3]), [], 3)
    assert (list(outcome.forms), outcome.error, list(outputs)) == ([], None, [()] * 3)


UNREADABLE = [
    NEW_KIND,
    PropertyValue(type_value=NEW_TYPE),
    PropertyValue(list_value=PropertyList(values=[NEW_KIND])),
    PropertyValue(map_value=PropertyMap(values={"inner": PropertyValue(type_value=NEW_TYPE)})),
]


@pytest.mark.parametrize("value", UNREADABLE)
def test_a_property_of_a_later_servers_type_is_refused_where_it_is_asked_for(value: PropertyValue) -> None:
    with pytest.raises(
        ov.UnsupportedType, match=r"the value of A is of a type that only a later version of the client"
    ):
        model_codec.decode_property("A", value)


@pytest.mark.parametrize("value", UNREADABLE)
def test_a_model_is_of_use_without_what_only_a_later_client_reads(value: PropertyValue) -> None:
    values = {"A": value, "B": PropertyValue(bool_value=True), "C": PropertyValue()}
    assert model_codec.decode_model(ModelInfo(properties=values)).properties == {"B": True, "C": None}
    nodes = [RuntimeNode(attributes=PropertyMap(values=values))]
    (node,) = model_codec.decode_graph(GetRuntimeModelResponse(nodes=nodes)).nodes
    assert node.attributes == {"B": True, "C": None}


def test_a_model_of_a_later_servers_element_type_is_refused_with_a_sentence() -> None:
    with pytest.raises(
        ov.InferwireError, match="element type 99 is one that only a later version of the client may know"
    ):
        model_codec.decode_model(ModelInfo(inputs=[Port(element_type=NEW_TYPE)]))
    with pytest.raises(ov.InferwireError, match="element type 99"):
        codec.decode_states([TensorHeader(element_type=NEW_TYPE)], [b""])
