"""Every reader of bytes refuses in a sentence what it cannot read: a little of what `make fuzz` does for longer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.targets import TARGETS


@st.composite
def damaged(draw: st.DrawFn, example: bytes) -> bytes:
    """Change a part of an example."""
    start = draw(st.integers(0, len(example)))
    end = draw(st.integers(start, min(len(example), start + 8)))
    return example[:start] + draw(st.binary(max_size=8)) + example[end:]


@pytest.mark.parametrize("name", TARGETS)
def test_the_examples_are_read(name: str) -> None:
    target = TARGETS[name]
    if name != "compressed":  # whose examples are beginnings
        for example in target.examples:
            target.read(example)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_bytes_are_read_or_refused(name: str, data: st.DataObject) -> None:
    target = TARGETS[name]
    target(data.draw(damaged(data.draw(st.sampled_from(target.examples))) | st.binary(max_size=64)))
