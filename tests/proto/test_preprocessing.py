"""Recorded calls come off the wire as they went on it, and only those that are in the table."""

from __future__ import annotations

import pytest

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.inferwire.v1 import models_pb2 as pb
from inferwire_proto.preprocessing import (
    Call,
    PortLayout,
    Recording,
    calls_from_wire,
    calls_to_wire,
    put_recording,
    recording_of,
)
from inferwire_proto.properties import EnumValue

CALLS = (
    Call("input", None, "tensor", "set_element_type", (BY_NAME["u8"],)),
    Call("input", "data", "preprocess", "mean", ([1.0, 2.5],)),
    Call("input", 0, "preprocess", "crop", ([0, -1], [2, 3])),
    Call("input", 3, "preprocess", "convert_color", (EnumValue("preprocess.ColorFormat", "RGB"),)),
    Call("output", "", "model", "set_layout", ("[N,C]",)),
    Call("output", 1, "postprocess", "convert_element_type"),
)


def test_calls_come_back_as_they_went() -> None:
    messages = [pb.PreprocessingCall.FromString(call.SerializeToString()) for call in calls_to_wire(CALLS)]
    assert calls_from_wire(messages) == CALLS


def test_a_recording_comes_back_as_it_went() -> None:
    recording = Recording(CALLS, (PortLayout(True, 1, "[N,C]"), PortLayout(False, 0, "[...]")), 2)
    request = pb.DescribePreprocessingRequest()
    put_recording(request, recording)
    assert recording_of(pb.DescribePreprocessingRequest.FromString(request.SerializeToString())) == recording


@pytest.mark.parametrize(
    ("part", "method", "name"),
    [
        ("preprocess", "custom", r"input\(\)\.preprocess\(\)\.custom\(\)"),
        ("postprocess", "convert_layout", r"input\(\)\.postprocess\(\)\.convert_layout\(\)"),
        ("__class__", "", r"input\(\)\.__class__\(\)\.\(\)"),
    ],
)
def test_a_call_that_is_not_in_the_table_is_refused(part: str, method: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} is no call of PrePostProcessor$"):
        calls_from_wire([pb.PreprocessingCall(part=part, method=method)])
