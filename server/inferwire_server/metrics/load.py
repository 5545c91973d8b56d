"""The metrics of how busy devices and models are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from inferwire_server.core.scheduling.occupancy import Occupancy
from inferwire_server.core.taken import Taken
from inferwire_server.engine.device import Device
from inferwire_server.metrics.room import Room
from inferwire_server.tallies import Counted, labels_of


def of_occupancies(devices: Iterable[Device]) -> Iterable[Metric]:
    """Take how busy devices and models are, for its gauges."""
    return _occupied([_device_load(device) for device in devices])


class _DeviceLoad(NamedTuple):
    """How busy a device is, and what it may be at most."""

    device: str
    queue_capacity: int
    queue_taken: Taken
    running_limit: int
    by_labels: Mapping[Counted, Occupancy]


def _device_load(device: Device) -> _DeviceLoad:
    by_labels = _by_labels(device)
    # More than there are slots in all never run, whatever --max-running allows.
    running_limit = min(device.occupancy.slots, sum(occupancy.slots for occupancy in by_labels.values()))
    return _DeviceLoad(device.name, device.queue_capacity, device.queue_taken, running_limit, by_labels)


def _occupied(loads: Sequence[_DeviceLoad]) -> Iterator[Metric]:
    queued = GaugeMetricFamily("inferwire_queued_jobs", "Jobs waiting for a slot.", labels=Counted._fields)
    busy = GaugeMetricFamily("inferwire_busy_slots", "Slots that run an inference.", labels=Counted._fields)
    slots = GaugeMetricFamily("inferwire_slots", "Slots of a model.", labels=Counted._fields)
    bound = GaugeMetricFamily("inferwire_sequences", "Callers whose states a model keeps.", labels=Counted._fields)
    capacity = GaugeMetricFamily("inferwire_queue_capacity", "Jobs that may wait.", labels=("device",))
    limit = GaugeMetricFamily("inferwire_running_limit", "Inferences that may run at once.", labels=("device",))
    taken = Room.of("inferwire_queued_bytes", "Inputs of waiting jobs, in bytes.", ("device",))
    for load in loads:
        capacity.add_metric((load.device,), load.queue_capacity)
        limit.add_metric((load.device,), load.running_limit)
        taken.add((load.device,), load.queue_taken)
        for labels, occupancy in load.by_labels.items():
            queued.add_metric(labels, occupancy.queued)
            busy.add_metric(labels, occupancy.running)
            slots.add_metric(labels, occupancy.slots)
            bound.add_metric(labels, occupancy.bound)
    yield from (queued, busy, slots, bound, capacity, limit, *taken)


def _by_labels(device: Device) -> dict[Counted, Occupancy]:
    """Add up the models of one name and version: there are two while a reload lets the old one finish."""
    found: dict[Counted, Occupancy] = {}
    for model in device.models:
        occupancy, labels = device.occupancy_of(model), Counted(*labels_of(model), device.name)
        known = found.get(labels, Occupancy(0, 0, 0))
        found[labels] = Occupancy(
            known.running + occupancy.running,
            known.slots + occupancy.slots,
            known.queued + occupancy.queued,
            known.bound + occupancy.bound,
        )
    return found
