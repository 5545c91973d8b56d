"""Batching asked for by compile properties, and by parts of it that several say."""

from __future__ import annotations

import pytest

from inferwire_proto.errors import Code
from inferwire_proto.properties import PropertyValue
from inferwire_server.core.batch_options import BatchOptions
from inferwire_server.core.batch_properties import read_batching
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.errors import ServingError

KNOWN = ("INFERWIRE_MAX_BATCH", "INFERWIRE_MAX_BATCH_DELAY_US", "INFERWIRE_PREFERRED_BATCHES")
NUMBER = "expected a whole number from 0 up to 2147483647"


@pytest.mark.parametrize(
    ("properties", "batching"),
    [
        ({}, None),
        ({"INFERWIRE_MAX_BATCH": 1}, None),
        ({"INFERWIRE_MAX_BATCH": 0}, None),
        ({"INFERWIRE_MAX_BATCH": 16}, Batching(16)),
        ({"INFERWIRE_MAX_BATCH": "16", "INFERWIRE_MAX_BATCH_DELAY_US": 250}, Batching(16, 0.00025)),
        ({"INFERWIRE_MAX_BATCH": 16, "INFERWIRE_PREFERRED_BATCHES": [4, "8"]}, Batching(16, 0.0, (4, 8))),
        ({"INFERWIRE_MAX_BATCH": 16, "INFERWIRE_PREFERRED_BATCHES": "4, 8"}, Batching(16, 0.0, (4, 8))),
        ({"INFERWIRE_MAX_BATCH": 16, "INFERWIRE_PREFERRED_BATCHES": 4}, Batching(16, 0.0, (4,))),
    ],
)
def test_properties_become_batching_and_the_runtime_does_not_see_them(
    properties: dict[str, PropertyValue], batching: Batching | None
) -> None:
    assert read_batching({"NUM_STREAMS": 1, **properties}) == (batching, {"NUM_STREAMS": 1})


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        (
            {"INFERWIRE_MAX_BATCH": "many"},
            f"property INFERWIRE_MAX_BATCH is 'many', {NUMBER}",
        ),
        ({"INFERWIRE_MAX_BATCH": True}, f"property INFERWIRE_MAX_BATCH is True, {NUMBER}"),
        ({"INFERWIRE_MAX_BATCH": -1}, f"property INFERWIRE_MAX_BATCH is -1, {NUMBER}"),
        pytest.param(
            {"INFERWIRE_MAX_BATCH": "9" * 5000},
            f"property INFERWIRE_MAX_BATCH is '{'9' * 5000}', {NUMBER}",
            id="a text that Python does not read",
        ),
        pytest.param(
            {"INFERWIRE_MAX_BATCH": 1 << 20_000},
            f"property INFERWIRE_MAX_BATCH is too long to be shown, {NUMBER}",
            id="a number of more digits than Python writes",
        ),
        ({"INFERWIRE_MAX_BATCH": "2147483648"}, f"property INFERWIRE_MAX_BATCH is '2147483648', {NUMBER}"),
        pytest.param(
            {"INFERWIRE_MAX_BATCH": 2, "INFERWIRE_MAX_BATCH_DELAY_US": 10**400},
            f"property INFERWIRE_MAX_BATCH_DELAY_US is {10**400}, {NUMBER}",
            id="a number of microseconds that is no float",
        ),
        (
            {"INFERWIRE_MAX_BATCH": 4, "INFERWIRE_PREFERRED_BATCHES": [8]},
            "a preferred batch is 8 rows, expected 1 to 4",
        ),
        (
            {"INFERWIRE_MAX_BATCH_DELAY_US": 5},
            "property INFERWIRE_MAX_BATCH_DELAY_US needs INFERWIRE_MAX_BATCH, the largest number of rows in a batch",
        ),
        (
            {"INFERWIRE_BATCH": 5},
            f"property INFERWIRE_BATCH is not known, expected one of {', '.join(KNOWN)}",
        ),
    ],
)
def test_values_that_are_none_are_refused(properties: dict[str, PropertyValue], sentence: str) -> None:
    with pytest.raises(ServingError) as caught:
        read_batching(properties)
    assert (caught.value.code, caught.value.message) == (Code.INVALID_INPUT, sentence)


@pytest.mark.parametrize(
    ("over", "below", "batching"),
    [
        (BatchOptions(), BatchOptions(8, 100, (4,)), Batching(8, 0.0001, (4,))),
        (BatchOptions(16), BatchOptions(8, 100, (4,)), Batching(16, 0.0001, (4,))),
        (BatchOptions(None, 0, ()), BatchOptions(8, 100, (4,)), Batching(8)),
        (BatchOptions(0), BatchOptions(8, 100, (4,)), None),
        (BatchOptions(8), BatchOptions(None, 100), Batching(8, 0.0001)),
        (BatchOptions(None, 0, ()), BatchOptions(), None),
    ],
)
def test_what_one_does_not_say_another_may(over: BatchOptions, below: BatchOptions, batching: Batching | None) -> None:
    assert over.over(below).batching() == batching


@pytest.mark.parametrize(
    ("batches", "name"),
    [(BatchOptions(max_batch_delay_us=5), "max_batch_delay_us"), (BatchOptions(None, 0, (4,)), "preferred_batches")],
)
def test_batches_without_a_largest_are_refused(batches: BatchOptions, name: str) -> None:
    with pytest.raises(ServingError, match=f"^{name} is set without max_batch, the most rows of one inference$"):
        batches.batching()
