"""What a load asks for, as the model's file of settings would say it."""

from __future__ import annotations

from inferwire_server.core.load_options import LoadOptions


def test_what_a_load_does_not_say_is_not_written() -> None:
    assert LoadOptions().settings() == {}


def test_what_a_load_says_is_written_as_in_a_file() -> None:
    options = LoadOptions(
        max_batch=0,
        shapes={"x": (1, 4)},
        properties={"NUM_STREAMS": "2"},
        preferred_batches=(2, 4),
        warm_up={"x": (2, 4)},
    )
    assert options.settings() == {
        "max_batch": 0,
        "shapes": {"x": [1, 4]},
        "properties": {"NUM_STREAMS": "2"},
        "preferred_batches": [2, 4],
        "warm_up": {"x": [2, 4]},
    }
