"""What people read of OpenVINO's errors."""

from __future__ import annotations

import pytest

from inferwire_proto.openvino_errors import without_places

CORE = "Exception from src/inference/src/cpp/core.cpp:84:\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            f"{CORE}Exception from src/node.cpp:20:\n[2] and [3] do not fit:\nnode 'sum'",
            "[2] and [3] do not fit:\nnode 'sum'",
        ),
        (f"the reload failed: {CORE}no such file", "the reload failed: no such file"),
        (f"{CORE}Check 'a == 'b'' failed at src/xml.cpp:887:\nno weights\n", "no weights\n"),
        (f"{CORE}Check 'm_weights' failed at src/xml.cpp:887:\n\n", "Check 'm_weights' failed at src/xml.cpp:887:\n\n"),
        ("Check 'size <= capacity' failed: [8,8]", "Check 'size <= capacity' failed: [8,8]"),
        ("input 'x' is missing", "input 'x' is missing"),
    ],
)
def test_places_in_the_sources_are_left_out_where_something_is_said_behind_them(text: str, left: str) -> None:
    assert without_places(text) == left
