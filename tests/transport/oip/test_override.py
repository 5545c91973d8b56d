"""Loading a model with a configuration of the caller's: what it says is what is served, or refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.plain_http import with_triton
from tritonclient.utils import InferenceServerException

from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.engine.device import Device
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.engine.models import Model
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition
from inferwire_server.service.values import ServedModel
from inferwire_server.settings import Settings
from inferwire_server.tallies import Tallies
from inferwire_server.transport.oip.config import describe
from inferwire_server.transport.oip.override import read_override

X = {"name": "x", "data_type": "TYPE_FP32"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(model_repository=tmp_path / "models", allow_model_control=True)


def read(config: Any, model: Model | None = None) -> dict[str, Any]:
    return read_override(json.dumps(config), "m", model)


async def a_model(*, device: str = "CPU") -> Model:
    """A model of f32[?,4] as it is served now, without batches."""
    return Model(FakeModel(echo_spec("m")), Device(device, Scheduler(1), Tallies().of), 2, ModelOptions("m"), "1")


READ: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"name": "m", "platform": "openvino", "backend": "openvino"}, {}),
    ({"max_batch_size": "16"}, {"max_batch": 16}),
    ({"maxBatchSize": 16}, {"max_batch": 16}),
    ({"max_batch_size": 0}, {"max_batch": 0}),
    ({"instance_group": [{"count": 3}]}, {"slots": 3}),
    ({"instance_group": [{"kind": "KIND_GPU", "count": "3"}]}, {"device": "GPU", "slots": 3}),
    ({"instance_group": [{"kind": "KIND_MODEL"}]}, {}),
    ({"version_policy": {"latest": {"num_versions": 2}}}, {"version_policy": "latest:2"}),
    ({"version_policy": {"latest": {}}}, {"version_policy": "latest:1"}),
    ({"version_policy": {"all": {}}}, {"version_policy": "all"}),
    ({"version_policy": {"specific": {"versions": [1, "3"]}}}, {"version_policy": "1,3"}),
    ({"version_policy": {"specific": {}}}, {}),
    (
        {"dynamic_batching": {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": 100}},
        {"max_batch_delay_us": 100, "preferred_batches": [4, 8]},
    ),
    (
        {"sequence_batching": {"oldest": {"max_candidate_sequences": 7}, "max_sequence_idle_microseconds": "2500000"}},
        {"max_sequences": 7, "sequence_idle_s": 2.5},
    ),
    ({"sequence_batching": {"direct": {}}}, {}),
    ({"parameters": {"NUM_STREAMS": {"string_value": "2"}}}, {"properties": {"NUM_STREAMS": "2"}}),
    (
        {"parameters": {"TARGET_DEVICE": {"string_value": "GPU.1"}, "HINT_BF16": {"string_value": "YES"}}},
        {"device": "GPU.1", "properties": {"INFERENCE_PRECISION_HINT": "bf16"}},
    ),
    (
        {"parameters": {"HINT_BF16": {"string_value": "NO"}, "ENABLE_BATCH_PADDING": {"string_value": "YES"}}},
        {},
    ),
    ({"input": [{**X, "dims": [2, -1]}], "output": [{**X, "label_filename": "a"}]}, {"shapes": {"x": [2, -1]}}),
    ({"max_batch_size": 8, "input": [{**X, "dims": [4]}]}, {"max_batch": 8, "shapes": {"x": [-1, 4]}}),
    ({"input": [X]}, {}),
    ({"input": [{**X, "format": "FORMAT_NHWC"}]}, {}),
    ({"model_transaction_policy": {"decoupled": False}, "response_cache": {"enable": False}}, {}),
]


@pytest.mark.parametrize(("config", "settings"), READ, ids=[json.dumps(config) for config, _ in READ])
def test_what_a_configuration_says_is_read(config: dict[str, Any], settings: dict[str, Any]) -> None:
    assert read(config) == settings


OFF = "which this server does not offer; expected some of backend, dynamic_batching.max_queue_delay_microseconds, "
REFUSED: list[tuple[Any, Code, str]] = [
    ([], Code.INVALID_INPUT, "is no model configuration: expected a JSON object"),
    ({"max_batch_size": "many"}, Code.INVALID_INPUT, "the config of the load of model 'm' is no model configuration"),
    ({"max_batch_size": 2**31}, Code.INVALID_INPUT, "is no model configuration: "),
    ({"colour": "red"}, Code.INVALID_INPUT, 'has no field named "colour"'),
    ({"name": "n"}, Code.INVALID_INPUT, "the config of the load of model 'm' has name 'n', expected 'm'"),
    ({"backend": "onnxruntime"}, Code.INVALID_INPUT, "has backend 'onnxruntime', expected 'openvino'"),
    ({"instance_group": [{}, {}]}, Code.UNIMPLEMENTED, "has 2 instance groups, expected one"),
    ({"optimization": {"priority": "PRIORITY_MAX"}}, Code.UNIMPLEMENTED, f"has optimization.priority, {OFF}"),
    (
        {
            "input": [{**X, "optional": True}],
            "ensemble_scheduling": {"step": [{"model_name": "a"}]},
            "instance_group": [{"gpus": [0], "count": 1}],
            "metric_tags": {"a": "b"},
            "model_transaction_policy": {"decoupled": True},
        },
        Code.UNIMPLEMENTED,
        "has ensemble_scheduling.step.model_name, input.optional, instance_group.gpus, metric_tags, model_transaction",
    ),
]


@pytest.mark.parametrize(("config", "code", "sentence"), REFUSED, ids=[json.dumps(config) for config, *_ in REFUSED])
def test_what_is_none_or_not_offered_is_refused_in_one_sentence(config: Any, code: Code, sentence: str) -> None:
    with pytest.raises(ServingError) as caught:
        read(config)
    assert caught.value.code is code
    assert sentence in caught.value.message


@pytest.mark.parametrize("text", ["{", "", "[" * 2000, '{"name":"\\ud800"}'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ServingError, match="is no model configuration: "):
        read_override(text, "m", None)


@pytest.mark.parametrize(
    "config",
    [
        {"input": [{}] * (1 << 14)},
        {"output": [{"dims": [[]] * (1 << 14)}]},
        {"parameters": {str(number): {"string_value": "x"} for number in range(1 << 14)}},
    ],
)
def test_one_of_more_values_than_any_model_has_is_refused_unread(config: Any) -> None:
    with pytest.raises(ServingError, match="'m' is no model configuration: it has more than 16384 values, expected"):
        read(config)


async def test_what_a_model_says_of_itself_changes_nothing() -> None:
    for model in (await a_model(), await a_model(device="GPU.1")):
        assert read(describe(model, ("1",)), model) == {"slots": 2, "version_policy": "1", "max_batch": 0}


async def test_the_shape_that_a_model_has_is_no_new_one() -> None:
    model = await a_model()
    assert "shapes" not in read({"input": [{**X, "dims": [-1, 4]}]}, model)
    assert "shapes" not in read({"max_batch_size": 8, "input": [{**X, "dims": [4]}]}, model)
    assert read({"max_batch_size": 8, "input": [{**X, "dims": [5]}]}, model)["shapes"] == {"x": [-1, 5]}
    assert "device" not in read({"instance_group": [{"kind": "KIND_CPU"}]}, model)
    assert read({"instance_group": [{"kind": "KIND_GPU"}]}, model)["device"] == "GPU"


async def test_what_the_last_load_brought_is_not_the_model_s_own() -> None:
    model, said = await a_model(), {"input": [{**X, "dims": [-1, 4]}], "instance_group": [{"kind": "KIND_CPU"}]}
    brought = {"shapes": {"x": [-1, 4]}, "device": "CPU"}
    assert read_override(json.dumps(said), "m", model, brought) == brought
    assert read_override(json.dumps({}), "m", model, brought) == {}


async def test_a_model_is_loaded_with_a_configuration_until_it_is_loaded_anew(
    rpc: Any, rest_address: str, composition: Composition
) -> None:
    changed = {"max_batch_size": "16", "instance_group": [{"count": 3}], "dynamic_batching": {}}

    def now() -> tuple[int, bool]:
        model = composition.services.models.resolve(ServedModel("echo"))
        return model.slots, model.terms.batching is not None

    await rpc.load_model("echo", config=json.dumps(changed))
    assert now() == (3, True)
    config = (await rpc.get_model_config("echo")).config
    assert (config.max_batch_size, config.input[0].dims, config.instance_group[0].count) == (16, [4], 3)
    await rpc.load_model("echo")
    assert now() == (2, False)

    def change(client: Any) -> None:
        current = client.get_model_config("echo")
        current["instance_group"][0]["count"] = 5
        client.load_model("echo", config=json.dumps(current))

    await with_triton(rest_address, change)
    assert now() == (5, False)
    await with_triton(rest_address, lambda client: client.load_model("echo", config=json.dumps(changed)))
    assert now() == (3, True)


async def test_a_load_changes_what_the_one_before_has_brought(rpc: Any, composition: Composition) -> None:
    for kind in ("GPU", "CPU"):
        await rpc.load_model("echo", config=json.dumps({"instance_group": [{"kind": f"KIND_{kind}"}]}))
        assert composition.services.models.brought("echo") == {"device": kind}
    await rpc.load_model("echo")
    assert composition.services.models.brought("echo") == {}


async def test_a_configuration_that_does_not_load_leaves_the_model_as_it_was(
    rpc: Any, rest_address: str, composition: Composition
) -> None:
    before = composition.services.models.resolve(ServedModel("echo"))
    with pytest.raises(InferenceServerException, match=r"instance_group\.count is -1, expected a whole") as raised:
        await rpc.load_model("echo", config=json.dumps({"instance_group": [{"count": -1}]}))
    assert raised.value.status() == "StatusCode.INVALID_ARGUMENT"
    assert composition.services.models.resolve(ServedModel("echo")) is before
    await composition.loader.sync()
    assert composition.services.models.resolve(ServedModel("echo")).slots == before.slots


async def test_a_configuration_sets_no_property_of_the_operator_s(rpc: Any, rest_address: str) -> None:
    config = json.dumps({"parameters": {"CACHE_DIR": {"string_value": "/x"}}})
    for load in (
        rpc.load_model("echo", config=config),
        with_triton(rest_address, lambda client: client.load_model("echo", config=config)),
    ):
        with pytest.raises(InferenceServerException, match="property CACHE_DIR is for the server's operator to set"):
            await load


@pytest.mark.parametrize("byte_size", [1, 60_000])
async def test_files_are_those_of_the_repository(rpc: Any, rest_address: str, byte_size: int) -> None:
    files = {"file:1/model.onnx": bytes(byte_size)}
    for bring in (
        rpc.load_model("echo", config="{}", files=files),
        with_triton(rest_address, lambda client: client.load_model("echo", config="{}", files=files)),
    ):
        with pytest.raises(InferenceServerException) as raised:
            await bring
        assert "the load of model 'echo' brings the file '1/model.onnx', expected none" in str(raised.value)
