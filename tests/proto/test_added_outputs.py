"""What a model is to give besides comes off the wire as it went on it."""

from __future__ import annotations

import pytest

from inferwire_proto.added_outputs import AddedOutput, from_wire, to_wire
from inferwire_proto.inferwire.v1 import models_pb2 as pb


@pytest.mark.parametrize("output", ["pool5", "", ("conv", 0), ("conv", -1), ("", 2**31 - 1)])
def test_outputs_come_back_as_they_went(output: AddedOutput) -> None:
    assert from_wire(pb.AddedOutput.FromString(to_wire(output).SerializeToString())) == output


def test_one_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="an added output has no name, expected a tensor's or a node's"):
        from_wire(pb.AddedOutput(index=1))
