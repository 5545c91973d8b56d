"""What a client has built into a model, as it is read off the wire."""

from __future__ import annotations

import pytest

from inferwire_proto.errors import Code
from inferwire_proto.inferwire.v1 import models_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_proto.preprocessing import Call
from inferwire_server.core.specs import Dimension
from inferwire_server.errors import ServingError
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
