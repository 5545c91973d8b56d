"""Batching asked for by compile properties, and by parts of it that several say."""

from __future__ import annotations

import pytest

from inferwire_proto.errors import Code
from inferwire_proto.properties import PropertyValue
from inferwire_server.core.batch_options import BatchOptions, as_property, divide
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.errors import ServingError, UnfitSetting

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
    batches, others = divide({"NUM_STREAMS": 1, **properties})
    assert (batches.batching(), others) == (batching, {"NUM_STREAMS": 1})


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
            {"INFERWIRE_BATCH": 5},
            f"property INFERWIRE_BATCH is not known, expected one of {', '.join(KNOWN)}",
        ),
    ],
)
def test_values_that_are_none_are_refused(properties: dict[str, PropertyValue], sentence: str) -> None:
    with pytest.raises(ServingError) as caught:
        divide(properties)
    assert (caught.value.code, caught.value.message) == (Code.INVALID_INPUT, sentence)


@pytest.mark.parametrize(
    ("over", "below", "batching"),
    [
        (BatchOptions(), BatchOptions(8, 100, (4,)), Batching(8, 0.0001, (4,))),
        (BatchOptions(16), BatchOptions(8, 100, (4,)), Batching(16, 0.0001, (4,))),
        (BatchOptions(None, 0, ()), BatchOptions(8, 100, (4,)), Batching(8)),
        (BatchOptions(0), BatchOptions(8, 100, (4,)), None),
        (BatchOptions(8), BatchOptions(None, 100), Batching(8, 0.0001)),
        (BatchOptions(4), BatchOptions(16, 100, (2, 8)), Batching(4, 0.0001, (2,))),
        (BatchOptions(None, 0, ()), BatchOptions(), None),
        (BatchOptions(), BatchOptions(None, 100, (4,)), None),
    ],
)
def test_what_one_does_not_say_another_may(over: BatchOptions, below: BatchOptions, batching: Batching | None) -> None:
    assert over.batching(below) == batching


@pytest.mark.parametrize(
    ("batches", "below", "setting", "reason"),
    [
        (BatchOptions(None, 5), BatchOptions(None, 7), "max_batch_delay_us", "there is no max_batch "),
        (BatchOptions(None, 0, (4,)), BatchOptions(), "preferred_batches", "there is no max_batch "),
        (BatchOptions(4, 0, (8,)), BatchOptions(), "preferred_batches", "a preferred batch is 8 rows, expected 1 to 4"),
        (BatchOptions(None, 0, (8,)), BatchOptions(4), "preferred_batches", "a preferred batch is 8 rows, expected 1"),
    ],
)
def test_what_does_not_go_together_is_refused_by_what_is_to_be_changed(
    batches: BatchOptions, below: BatchOptions, setting: str, reason: str
) -> None:
    with pytest.raises(UnfitSetting, match=f"^{setting}: {reason}") as caught:
        batches.batching(below)
    assert caught.value.setting == (setting,)


def test_a_client_is_told_the_property_that_it_has_set() -> None:
    told = as_property(UnfitSetting(["max_batch_delay_us"], "it is too long"))
    assert (told.code, told.message) == (Code.INVALID_INPUT, "property INFERWIRE_MAX_BATCH_DELAY_US: it is too long")
