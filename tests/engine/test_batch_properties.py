"""Batching asked for by compile properties."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from inferwire_proto.errors import Code
from inferwire_proto.properties import PropertyValue
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.engine.batch_properties import read_batching
from inferwire_server.engine.engine import Engine, QueueOptions
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend
from inferwire_server.repository.tallies import Tallies

KNOWN = ("INFERWIRE_MAX_BATCH", "INFERWIRE_MAX_BATCH_DELAY_US", "INFERWIRE_PREFERRED_BATCHES")
NUMBER = "expected a whole number from 0 to 999999999999999999"
MODELS = Path(__file__).parents[2] / "deploy/models"


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
    options = read_batching(ModelOptions("m", properties={"NUM_STREAMS": 1, **properties}))
    assert options == ModelOptions("m", properties={"NUM_STREAMS": 1}, batching=batching)


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
        read_batching(ModelOptions("m", properties=properties))
    assert (caught.value.code, caught.value.message) == (Code.INVALID_INPUT, sentence)


async def test_a_model_that_cannot_be_batched_does_not_load_and_leaves_nothing_behind() -> None:
    clock = asyncio.get_running_loop().time
    async with Engine(OpenVinoBackend(), QueueOptions(), Tallies().of, clock) as engine:
        batched = ModelOptions("m", "CPU", {"INFERWIRE_MAX_BATCH": 8})
        model = await engine.load(Source(MODELS / "digits_mlp/1/digits_mlp.xml"), batched)
        assert engine.devices[0].models == (model,)
        with pytest.raises(ServingError, match="model 'm' cannot be batched: it keeps states") as caught:
            await engine.load(Source(MODELS / "silero_vad_stateful/1/silero_vad_stateful.xml"), batched)
        assert caught.value.code is Code.MODEL_FAILED
        assert engine.devices[0].models == (model,)
        assert model.device.models == (model,)
