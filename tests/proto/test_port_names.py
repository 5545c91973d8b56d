"""The names of inputs and outputs come off the wire as they went on it."""

from __future__ import annotations

import pytest

from inferwire_proto.inferwire.v1 import models_pb2 as pb
from inferwire_proto.port_names import PortNames, from_wire, to_wire


@pytest.mark.parametrize("port", [PortNames(False, 0, frozenset({"a", "b"})), PortNames(True, 3, frozenset())])
def test_names_come_back_as_they_went(port: PortNames) -> None:
    assert from_wire(pb.PortNames.FromString(to_wire(port).SerializeToString())) == port
