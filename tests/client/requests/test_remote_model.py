"""What every execution of a model has in common: how many of them may travel as one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inferwire.requests.freight import Freight
from inferwire.requests.remote_model import MOST_STACKED, RemoteModel
from inferwire.transport.descriptions import ModelDescription
from inferwire.transport.executions import SequenceMark, Target
from inferwire.transport.fake_transport import FakeTransport
from inferwire_proto.properties import PropertyValue


def model(description: ModelDescription, most_rows: int, **properties: PropertyValue) -> RemoteModel:
    batched = replace(description, max_batch_rows=most_rows)
    return RemoteModel(FakeTransport(batched), Target("double", is_served=True), batched, properties)


def freight(*shapes: tuple[int, ...]) -> Freight:
    return Freight(shapes, [], {}, {})


@pytest.mark.parametrize(
    ("most_rows", "shape", "most_stacked"),
    [
        (16, (1, 3), 16),
        (16, (3, 3), 5),
        (16, (16, 3), 1),
        (16, (17, 3), 1),
        (16, (0, 3), MOST_STACKED),
        (16, (), MOST_STACKED),
        (0, (1, 3), MOST_STACKED),
    ],
)
def test_a_stack_has_no_more_rows_than_run_together_if_any_do(
    description: ModelDescription, most_rows: int, shape: tuple[int, ...], most_stacked: int
) -> None:
    assert model(description, most_rows).header(freight(shape)).most_stacked == most_stacked


def test_the_input_with_the_most_rows_counts(description: ModelDescription) -> None:
    two = replace(description, inputs=description.inputs * 2)
    assert model(two, 16).header(freight((2, 3), (1, 3))).most_stacked == 8


def test_what_runs_on_states_or_is_timed_is_not_stacked(description: ModelDescription) -> None:
    assert model(description, 16).header(freight((1, 3)), SequenceMark(1, is_start=True)).most_stacked == 1
    assert model(description, 16, PERF_COUNT=True).header(freight((1, 3))).most_stacked == 1


def test_a_header_is_made_once_for_all_that_take_the_same_along(description: ModelDescription) -> None:
    asked = freight((1, 3))
    made = model(description, 16)
    header = made.header(asked)
    assert made.header(freight((1, 3))) is header
    assert made.header(freight((2, 3))) is not header
    assert asked.header is None, "it is whoever asked that keeps it, or does not"
