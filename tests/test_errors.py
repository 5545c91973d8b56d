"""The text of an error that a caller gets has a maximal length."""

from __future__ import annotations

import pytest

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError


@pytest.mark.parametrize("length", [0, 100, 6000])
def test_a_sentence_is_told_as_it_is(length: int) -> None:
    error = ServingError(Code.INVALID_INPUT, "s" * length)
    assert error.message == str(error) == "s" * length


def test_a_very_long_sentence_has_its_beginning_and_its_end() -> None:
    name = "n" * 1_000_000
    error = ServingError(Code.INVALID_INPUT, f"input '{name}' has shape [1], expected [2]")
    assert error.message.startswith("input 'nnn")
    assert error.message.endswith("nnn' has shape [1], expected [2]")
    assert "n ... n" in error.message
    assert 5990 <= len(error.message) <= 6000
    assert error.copy().message == error.message
