"""Values of properties come off the wire as they went on it."""

from __future__ import annotations

import pytest

from inferwire_proto.inferwire.v1 import types_pb2 as pb
from inferwire_proto.properties import PropertyValue, from_wire, to_wire

ITEMS: list[tuple[str, PropertyValue]] = [("z", 1), ("a", True), ("m", None), ("b", {"y": 1.5, "x": "text"})]


@pytest.mark.parametrize("items", [ITEMS, ITEMS[::-1], []])
def test_a_map_keeps_its_order(items: list[tuple[str, PropertyValue]]) -> None:
    value = from_wire(pb.PropertyValue.FromString(to_wire(dict(items)).SerializeToString()))
    assert isinstance(value, dict)
    assert list(value.items()) == items
    assert [list(each) for each in value.values() if isinstance(each, dict)] == [["y", "x"]] * bool(items)


def test_a_map_without_an_order_has_that_of_its_names() -> None:
    message = to_wire(dict(ITEMS))
    message.map_value.order[:] = ["m", "unknown"]
    value = from_wire(message)
    assert isinstance(value, dict)
    assert list(value) == ["m", "a", "b", "z"]
