"""Adds up what workers answer to the same call, so that callers see one server.

It takes and gives answers as they stand on the wire. Workers run the same program, so that their answers differ in
their numbers and in what they list, never in their form. It must not know how it came by the answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from math import fsum
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

import orjson
from google.protobuf.message import Message

from inferwire_proto.inferwire.v1.devices_pb2 import ListDevicesResponse
from inferwire_server.open_inference.stubs.grpc_service_pb2 import ModelStatisticsResponse

Sum: TypeAlias = Callable[[Sequence[bytes]], bytes]
"""Makes the answers of all workers to one call, the lead's own first, the one answer that callers get."""

_Record: TypeAlias = dict[str, Any]
_M = TypeVar("_M", bound=Message)

_FAMILY = re.compile(r"(# HELP .*\n# TYPE .*\n)((?:[^#\n].*\n)*)")
"""A metric's head and its samples, as `generate_latest` writes them."""

_IDENTITY = ("name", "version", "batch_size", "type", "id")
"""Fields by which records in several lists are known to be about the same thing."""

Total: TypeAlias = Callable[[Sequence[Any]], Any]

_first: Total = itemgetter(0)

NUMBERS: Mapping[str, Total] = {
    "last_inference": max,
    **dict.fromkeys(("batch_size", "id"), _first),
    **dict.fromkeys(("inference_count", "execution_count", "count", "ns", "byte_size"), sum),
    **dict.fromkeys(("running", "slots", "queued", "queue_capacity"), sum),
}
"""How the numbers of records are combined, by their fields."""

GAUGES: Mapping[str, Total] = {
    "process_start_time_seconds": min,
    # The limit is that of each process, and the fullest is the first to reach it.
    "process_open_fds": max,
    "process_max_fds": _first,
    "python_info": _first,
    **dict.fromkeys(("process_virtual_memory_bytes", "process_resident_memory_bytes"), fsum),
    "inferwire_build_info": max,
    "inferwire_certificate_expiration_timestamp_seconds": min,
    "inferwire_renewal_refused": max,
    "inferwire_repository_unreadable": max,
    "inferwire_model_ready": min,
    "inferwire_model_load_failed": max,
    **dict.fromkeys(("inferwire_queued_jobs", "inferwire_queue_capacity"), fsum),
    **dict.fromkeys(("inferwire_busy_slots", "inferwire_slots", "inferwire_running_limit"), fsum),
    **dict.fromkeys(("inferwire_sequences", "inferwire_connections", "inferwire_kept_jobs"), fsum),
    **dict.fromkeys(("inferwire_sessions", "inferwire_client_models"), fsum),
    **{
        f"inferwire_{what}_bytes{limit}": fsum
        for what in ("queued", "kept_tensor", "upload", "kept_result")
        for limit in ("", "_limit")
    },
}
"""How gauges are combined. Counters and histograms add up."""


def sum_metrics(texts: Sequence[bytes]) -> bytes:
    """Add up scrapes in Prometheus' text format, sample by sample; of values that do not add up, one worker's counts.

    A sample is identified by the text before its value. That text is never taken apart, so that escapes in it stay as
    they are, and buckets stay in their order.
    """
    families: dict[str, dict[str, list[float]]] = {}
    for head, lines in chain.from_iterable(_FAMILY.findall(text.decode()) for text in texts):
        family = families.setdefault(head, {})
        # Labels may hold what Python takes for the end of a line, so that nothing but "\n" is one.
        for line in lines.split("\n")[:-1]:
            sample, _, value = line.rpartition(" ")
            family.setdefault(sample, []).append(float(value))
    return "".join(head + "".join(map(_line, family, family.values())) for head, family in families.items()).encode()


def _line(sample: str, values: Sequence[float]) -> str:
    return f"{sample} {_total(sample.partition('{')[0], values)}\n"


def _total(name: str, values: Sequence[float]) -> float:
    return min(values) if name.endswith("_created") else GAUGES.get(name, fsum)(values)


def sum_json(bodies: Sequence[bytes]) -> bytes:
    """Add up how often models have run or the load of devices, as REST says either."""
    return orjson.dumps(_sum_records([orjson.loads(body) for body in bodies]))


def sum_statistics(messages: Sequence[bytes]) -> bytes:
    """Add up how often models have run, as gRPC says it."""
    return _sum_messages(ModelStatisticsResponse, messages)


def sum_devices(messages: Sequence[bytes]) -> bytes:
    """Add up the load of devices, as gRPC says it."""
    return _sum_messages(ListDevicesResponse, messages)


def _sum_messages(kind: type[_M], messages: Sequence[bytes]) -> bytes:
    return kind(**_sum_records([_record(kind.FromString(message)) for message in messages])).SerializeToString()


def _record(message: Message) -> _Record:
    """Give a message's fields as JSON would have them, save those that are zero."""
    return {field.name: _plain(value) for field, value in message.ListFields()}


def _plain(value: Any) -> Any:
    match value:
        case int() | str():
            return value
        case Message():
            return _record(value)
        case _:
            return [_record(each) for each in value]


def _sum_records(records: Sequence[_Record]) -> _Record:
    """Make one record of several: numbers add up, and what names or describes is the first's."""
    fields = dict.fromkeys(chain.from_iterable(records))
    return {field: _sum_field(field, [record[field] for record in records if field in record]) for field in fields}


def _sum_field(field: str, values: Sequence[Any]) -> Any:
    match values[0]:
        case dict():
            return _sum_records(values)
        case list():
            return _sum_alike(chain.from_iterable(values))
        case bool():
            return values[0]
        case int() | float():
            return NUMBERS.get(field, sum)(values)
        case first:
            return first


def _sum_alike(records: Iterable[_Record]) -> list[_Record]:
    """Add up the records about the same thing, in the order in which each first came, but batches by their size."""
    alike: dict[tuple[Any, ...], list[_Record]] = {}
    for record in records:
        alike.setdefault(tuple(record.get(field) for field in _IDENTITY), []).append(record)
    return sorted(map(_sum_records, alike.values()), key=lambda record: record.get("batch_size", 0))
