"""The model configuration, as Triton's clients read it over gRPC and over HTTP: what is true of a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.plain_http import plain_client
from tests.transport.conftest import plain

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.settings import Settings

INPUT = {"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 4]}


def of_rank_unknown(type_name: str) -> ModelSpec:
    port = PortSpec(frozenset({"x"}), "x", BY_NAME[type_name], None, "x", "Parameter")
    return ModelSpec("open", (port,), (port,))


def of_layout(layout: str) -> ModelSpec:
    lengths = tuple(Dimension(length, length) for length in range(1, 1 + layout.count(",") + 1))
    port = PortSpec(frozenset({"x"}), "x", BY_NAME["u8"], lengths, "x", "Parameter", layout)
    return ModelSpec(layout, (port,), (port,))


@pytest.fixture
def models() -> dict[str, FakeModel]:
    stateful = ModelSpec("stateful", echo_spec("").inputs, echo_spec("").outputs, states=("memory",))
    mixed = PortSpec(frozenset({"x"}), "x", BY_NAME["u4"], (Dimension(2, 2), Dimension(1, 8)), "x", "Parameter")
    return {
        "echo": FakeModel(replace(echo_spec("echo"), rt_info={"model_info": {"model_type": "ssd"}, "version": "11"})),
        "batched": FakeModel(echo_spec("batched")),
        "stateful": FakeModel(stateful),
        "open": FakeModel(of_rank_unknown("string")),
        "mixed": FakeModel(ModelSpec("mixed", (mixed,), (mixed,))),
        "pixels_last": FakeModel(of_layout("[N,H,W,C]")),
        "pixels_first": FakeModel(of_layout("[N,C,H,W]")),
        "one_picture": FakeModel(of_layout("[C,H,W]")),
        "one_picture_last": FakeModel(of_layout("[H,W,C]")),
        "gpu": FakeModel(echo_spec("gpu"), devices=("GPU.0",), optimal_slots=5),
    }


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    repository = tmp_path / "models"
    batching = {"INFERWIRE_MAX_BATCH": 16, "INFERWIRE_MAX_BATCH_DELAY_US": 250, "INFERWIRE_PREFERRED_BATCHES": [4, 8]}
    (repository / "batched").mkdir(parents=True)
    properties = "\n".join(f"{name} = {value}" for name, value in batching.items())
    (repository / "batched" / "inferwire.toml").write_text(f"[properties]\n{properties}")
    (repository / "echo").mkdir()
    (repository / "echo" / "inferwire.toml").write_text('labels = "classes.txt"')
    (repository / "echo" / "classes.txt").write_text("a\nb\nc\nd")
    return Settings(model_repository=repository, max_sequences=7, sequence_idle_s=2.5)


async def config(rest_address: str, name: str) -> Any:
    async with plain_client(base_url=f"http://{rest_address}") as client:
        return (await client.get(f"/v2/models/{name}/config")).json()


async def test_both_faces_say_the_same(rpc: Any, rest_address: str, models: dict[str, FakeModel]) -> None:
    for name in models:
        over_http = plain(await config(rest_address, name))
        if name == "mixed":
            assert over_http["input"][0].pop("data_type") == over_http["output"][0].pop("data_type") == "TYPE_INVALID"
        over_grpc = (await rpc.get_model_config(name, as_json=True))["config"]
        assert plain(over_grpc) == over_http


async def test_a_model_that_is_not_batched_has_its_batch_in_its_shapes(rest_address: str) -> None:
    found = await config(rest_address, "echo")
    assert (found["max_batch_size"], plain(found["input"])) == (0, [INPUT])
    assert not {"dynamic_batching", "sequence_batching", "ensemble_scheduling"} & set(found)
    assert found["model_transaction_policy"] == {"decoupled": False}
    assert found["response_cache"] == {"enable": False}
    assert found["version_policy"] == {"specific": {"versions": [1]}}
    assert found["input"][0]["optional"] is False


async def test_an_output_with_labels_names_their_file(rest_address: str) -> None:
    found = await config(rest_address, "echo")
    assert [port["label_filename"] for port in found["output"]] == ["classes.txt"]
    assert "label_filename" not in (await config(rest_address, "batched"))["output"][0]


async def test_a_batched_model_s_shapes_are_those_of_a_row(rest_address: str) -> None:
    found = await config(rest_address, "batched")
    assert (found["max_batch_size"], plain(found["input"])) == (16, [{**INPUT, "dims": [4]}])
    assert plain(found["output"]) == [{**INPUT, "name": "y", "dims": [4]}]
    assert found["dynamic_batching"] == {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": 250}


async def test_a_model_with_states_is_for_sequences(rest_address: str) -> None:
    found = await config(rest_address, "stateful")
    assert found["sequence_batching"] == {
        "oldest": {"max_candidate_sequences": 7},
        "max_sequence_idle_microseconds": 2_500_000,
    }
    assert found["max_batch_size"] == 0


async def test_what_the_protocol_has_no_words_for_is_said_as_far_as_it_has(rest_address: str) -> None:
    opened, mixed = await config(rest_address, "open"), await config(rest_address, "mixed")
    assert plain(opened["input"]) == [{"name": "x", "data_type": "TYPE_STRING", "dims": [-1]}]
    assert plain(mixed["input"]) == [{"name": "x", "data_type": "TYPE_INVALID", "dims": [2, -1]}]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pixels_last", "NHWC"),
        ("pixels_first", "NCHW"),
        ("one_picture", "NCHW"),
        ("one_picture_last", "NHWC"),
        ("echo", "NONE"),
        ("open", "NONE"),
    ],
)
async def test_the_format_of_pictures_is_their_layout(rest_address: str, name: str, expected: str) -> None:
    assert (await config(rest_address, name))["input"][0]["format"] == f"FORMAT_{expected}"


async def test_instances_are_slots_on_the_device_s_kind(rest_address: str) -> None:
    found = await config(rest_address, "gpu")
    assert found["instance_group"] == [{"name": "gpu", "kind": "KIND_GPU", "count": 5}]


async def test_what_a_file_says_of_its_model_is_in_the_metadata(rest_address: str) -> None:
    async with plain_client(base_url=f"http://{rest_address}/v2/models") as client:
        found = (await client.get("/echo")).json()["rt_info"]
        assert found == {"model_info": {"model_type": "ssd"}, "version": "11"}
        assert (await client.get("/batched")).json()["rt_info"] == {}
