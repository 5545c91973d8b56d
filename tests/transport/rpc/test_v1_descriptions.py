"""What a client has built into a model, as it is read off the wire."""

from __future__ import annotations

import pytest

from inferwire_proto.errors import Code
from inferwire_proto.inferwire.v1 import models_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_proto.preprocessing import Call
from inferwire_server.core.specs import Dimension
from inferwire_server.errors import ServingError
from inferwire_server.transport.message_limits import FEW
from inferwire_server.transport.rpc.v1_descriptions import decode_properties, decode_source


def test_preprocessing_is_read_with_its_shapes() -> None:
    shape = types_pb2.PartialShape(dimensions=[types_pb2.Dimension(min=1, max=-1)])
    call = pb.PreprocessingCall(index=0, part="preprocess", method="reverse_channels")
    message = pb.Preprocessing(calls=[call], reshape={"x": shape}, reshape_positions={1: shape})
    (preprocessing,) = decode_source(pb.ModelSource(), [message]).preprocessing
    assert preprocessing.calls == (Call("input", 0, "preprocess", "reverse_channels"),)
    assert preprocessing.reshape == {"x": (Dimension(1, None),)}
    assert preprocessing.reshape_positions == {1: (Dimension(1, None),)}


def test_a_call_that_no_processor_has_is_the_callers_mistake() -> None:
    call = pb.PreprocessingCall(part="model", method="build")
    with pytest.raises(ServingError) as refused:
        decode_source(pb.ModelSource(), [pb.Preprocessing(calls=[call])])
    assert refused.value.code is Code.INVALID_INPUT
    assert refused.value.message == (
        "the preprocessing cannot be read: input().model().build() is no call of PrePostProcessor"
    )


def test_a_property_of_a_kind_that_a_later_client_has_is_refused_and_not_taken_for_none() -> None:
    of_a_later_version = types_pb2.PropertyValue.FromString(b"\xa2\x06\x03new")
    with pytest.raises(ServingError) as refused:
        decode_properties({"A": of_a_later_version})
    assert refused.value.code is Code.INVALID_INPUT
    assert refused.value.message == "the properties cannot be read: a value is of a kind that is not known"
    assert decode_properties({"A": types_pb2.PropertyValue()}) == {"A": None}


def each_kind_of_many(count: int) -> list[dict[str, types_pb2.PropertyValue]]:
    """Give properties of so many values, with those that these are in."""
    one = types_pb2.PropertyValue(int_value=1)
    inner = types_pb2.PropertyList(values=[one] * (count - 1))
    named = {str(number): one for number in range(count)}
    nested = types_pb2.PropertyValue(list_value=types_pb2.PropertyList(values=[one] * (count - 2)))
    return [
        named,
        {"A": types_pb2.PropertyValue(list_value=inner)},
        {"A": types_pb2.PropertyValue(tuple_value=inner)},
        {"A": types_pb2.PropertyValue(set_value=inner)},
        {"A": types_pb2.PropertyValue(map_value=types_pb2.PropertyMap(values=dict(list(named.items())[1:])))},
        {"A": types_pb2.PropertyValue(list_value=types_pb2.PropertyList(values=[nested]))},
    ]


def test_properties_of_as_many_values_as_are_taken_are_read() -> None:
    assert all(map(decode_properties, each_kind_of_many(FEW)))


@pytest.mark.parametrize("kind", range(6))
def test_properties_of_more_values_than_any_device_takes_are_refused(kind: int) -> None:
    with pytest.raises(ServingError) as refused:
        decode_properties(each_kind_of_many(FEW + 1)[kind])
    assert refused.value.code is Code.INVALID_INPUT
    assert refused.value.message == f"the properties have more than {FEW} values, expected fewer"
