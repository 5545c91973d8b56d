"""What several workers answer, added up: what their callers would read if they were one server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st

from inferwire_proto.inferwire.v1.devices_pb2 import Device, ListDevicesResponse
from inferwire_server.open_inference.stubs.grpc_service_pb2 import MemoryUsage, ModelStatistics, ModelStatisticsResponse
from inferwire_server.transport.relay.sums import (
    NUMBERS,
    Sum,
    sum_devices,
    sum_json,
    sum_statistics,
)

PHASES = ("compute_input", "compute_infer", "compute_output")
STATISTICS = ("success", "fail", "queue", *PHASES, "cache_hit", "cache_miss")


def duration(count: int, ns: int) -> dict[str, int]:
    return {"count": count, "ns": ns}


def model(name: str, version: str = "1", last: int = 0, **sizes: tuple[int, int]) -> dict[str, Any]:
    """Describe a model as the server does: `b4=(2, 30)` for two inferences of four rows, of 30 ns together."""
    runs = {int(size[1:]): run for size, run in sizes.items()}
    count, ns = (sum(parts) for parts in zip((0, 0), *runs.values(), strict=True))
    return {
        "name": name,
        "version": version,
        "last_inference": last,
        "inference_count": sum(size * run[0] for size, run in runs.items()),
        "execution_count": count,
        "inference_stats": {kind: duration(count, ns if kind == "success" else 0) for kind in STATISTICS},
        "batch_stats": [
            {"batch_size": size} | {phase: duration(run[0], run[1] if "infer" in phase else 0) for phase in PHASES}
            for size, run in runs.items()
        ],
    }


def body(*models: dict[str, Any]) -> bytes:
    return orjson.dumps({"model_stats": models})


def answer(models: Sequence[dict[str, Any]]) -> ModelStatisticsResponse:
    return ModelStatisticsResponse(model_stats=[ModelStatistics(**each) for each in models])


def message(*models: dict[str, Any]) -> bytes:
    return answer(models).SerializeToString()


def summed(*workers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add up over both interfaces, which have to say the same."""
    over_rest = orjson.loads(sum_json([body(*models) for models in workers]))["model_stats"]
    over_grpc = sum_statistics([message(*models) for models in workers])
    assert ModelStatisticsResponse.FromString(over_grpc) == answer(over_rest)
    return over_rest


def test_counts_and_times_of_a_model_add_up_and_its_last_inference_is_the_latest() -> None:
    (found,) = summed(
        [model("m", last=1700, b1=(3, 300))], [model("m", last=1900, b1=(2, 50))], [model("m", last=1800)]
    )
    assert found == model("m", last=1900, b1=(5, 350))


def test_batches_are_matched_by_their_size_and_stand_in_its_order() -> None:
    (found,) = summed([model("m", b2=(1, 20), b16=(1, 90))], [model("m", b1=(1, 10), b2=(3, 70), b8=(2, 60))])
    assert found == model("m", b1=(1, 10), b2=(4, 90), b8=(2, 60), b16=(1, 90))
    assert [batch["batch_size"] for batch in found["batch_stats"]] == [1, 2, 8, 16]


def test_versions_are_apart_and_a_model_that_one_worker_lists_is_listed() -> None:
    found = summed(
        [model("a", "1", b1=(1, 1)), model("a", "2", b1=(2, 2))],
        [model("a", "2", b1=(4, 4)), model("b", "1", b1=(8, 8))],
    )
    assert found == [model("a", "1", b1=(1, 1)), model("a", "2", b1=(6, 6)), model("b", "1", b1=(8, 8))]


def test_numbers_are_beyond_what_a_float_holds() -> None:
    (found,) = summed([model("m", b1=(1, 2**62 + 1))], [model("m", b1=(1, 2))])
    assert found["inference_stats"]["success"] == duration(2, 2**62 + 3)


runs = st.tuples(st.integers(0, 2**40), st.integers(0, 2**60))
models = st.builds(
    model,
    st.sampled_from("ab"),
    st.sampled_from("12"),
    st.integers(0, 2**41),
    b1=runs,
    b2=runs,
    b8=runs,
) | st.builds(model, st.sampled_from("ab"), b4=runs)
workers = st.lists(models, max_size=3, unique_by=lambda found: (found["name"], found["version"]))


@given(workers)
def test_a_worker_alone_says_what_it_says(found: list[dict[str, Any]]) -> None:
    assert sum_json([body(*found)]) == body(*found)
    assert sum_statistics([message(*found)]) == message(*found)


@given(st.lists(workers, min_size=3, max_size=3), st.permutations([0, 1, 2]))
def test_in_what_order_workers_answer_changes_no_number(
    answers: list[list[dict[str, Any]]], order: Sequence[int]
) -> None:
    def by_model(found: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
        return {(each["name"], each["version"]): each for each in found}

    found = by_model(summed(*answers))
    assert by_model(summed(*(answers[index] for index in order))) == found
    counts = Counter[tuple[str, str]]()
    for each in (each for worker in answers for each in worker):
        counts[each["name"], each["version"]] += each["inference_count"]
    assert {key: each["inference_count"] for key, each in found.items()} == counts


LEAD = {"name": "CPU", "full_name": "A processor", "running": 1, "slots": 2, "queued": 0, "queue_capacity": 256}
FOLLOWER = {"name": "CPU", "full_name": "Its other half", "running": 2, "slots": 3, "queued": 7, "queue_capacity": 128}
BOTH = {"name": "CPU", "full_name": "A processor", "running": 3, "slots": 5, "queued": 7, "queue_capacity": 384}
GPU = {"name": "GPU.0", "full_name": "A card", "running": 0, "slots": 4, "queued": 0, "queue_capacity": 16}


def test_the_load_of_devices_adds_up_over_rest() -> None:
    found = sum_json([orjson.dumps({"devices": [LEAD, GPU]}), orjson.dumps({"devices": [FOLLOWER]})])
    assert found == orjson.dumps({"devices": [BOTH, GPU]})


def test_the_load_of_devices_adds_up_over_grpc() -> None:
    def devices(*described: dict[str, Any]) -> bytes:
        known = [{key: value for key, value in each.items() if key != "slots"} for each in described]
        return ListDevicesResponse(devices=[Device(**each) for each in known]).SerializeToString()

    found = ListDevicesResponse.FromString(sum_devices([devices(GPU, LEAD), devices(FOLLOWER, GPU)]))
    expected = ListDevicesResponse.FromString(devices(GPU | {"queue_capacity": 32}, BOTH))
    assert MessageToDict(found) == MessageToDict(expected)


def numbers_of(message: Descriptor) -> Iterator[str]:
    """Name the numbers of a message, and those of the messages in it."""
    for field in message.fields:
        if field.message_type is not None:
            yield from numbers_of(field.message_type)
        elif field.cpp_type not in (field.CPPTYPE_STRING, field.CPPTYPE_BOOL):
            yield field.name


def test_what_becomes_of_each_number_is_decided() -> None:
    answers = (ModelStatisticsResponse.DESCRIPTOR, ListDevicesResponse.DESCRIPTOR)
    in_json_alone = {"slots"}
    assert set(NUMBERS) == {number for answer in answers for number in numbers_of(answer)} | in_json_alone


def test_the_memory_of_a_model_adds_up_where_it_is_of_a_kind() -> None:
    def used(*sizes: tuple[int, int]) -> bytes:
        usage = [MemoryUsage(type="GPU", id=number, byte_size=size) for number, size in sizes]
        return ModelStatisticsResponse(model_stats=[ModelStatistics(name="m", memory_usage=usage)]).SerializeToString()

    assert sum_statistics([used((1, 10), (2, 20)), used((2, 5))]) == used((1, 10), (2, 25))


@pytest.mark.parametrize(
    ("add", "empty"),
    [
        (sum_devices, b""),
        (sum_statistics, b""),
        (sum_json, b'{"devices":[]}'),
        (sum_json, b'{"model_stats":[]}'),
    ],
)
def test_workers_without_models_or_devices_list_none(add: Sum, empty: bytes) -> None:
    assert add([empty, empty]) == empty
