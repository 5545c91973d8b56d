"""What a server process holds, read from /proc and its metrics."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from inferwire_cli.server_process import ServerProcess

QUIET_LIMIT_S = 30.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MEBIBYTE = 1024 * 1024
_LABELS = ("model", "version", "device")

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Holding:
    """What the process holds at one moment."""

    rss_mib: float
    threads: int
    files: int

    def __str__(self) -> str:
        return f"RSS {self.rss_mib:.0f} MiB, {self.threads} threads, {self.files} files"


def holding(server: ServerProcess) -> Holding:
    """Read what the process holds now."""
    process = Path("/proc") / str(server.process.pid)
    pages = int((process / "statm").read_text().split()[1])
    count = {name: sum(1 for _ in (process / name).iterdir()) for name in ("task", "fd")}
    return Holding(pages * _PAGE / _MEBIBYTE, count["task"], count["fd"])


def at_rest(server: ServerProcess, files: int | None = None) -> Holding:
    """Wait until nothing runs or waits and no client's states or model is left, and as few files as before are open."""
    give_up = monotonic() + QUIET_LIMIT_S
    pause = Event()
    while True:
        now = holding(server)
        if monotonic() > give_up or (is_quiet(server) and (files is None or now.files <= files)):
            return now
        pause.wait(0.2)


def is_quiet(server: ServerProcess) -> bool:
    """Whether no job is left, and no session's states or model."""
    devices: list[dict[str, Any]] = _get(server, "/inferwire/v1/devices")["devices"]
    has_jobs = any(device["running"] or device["queued"] for device in devices)
    has_states = any(samples(server, "inferwire_sequences").values())
    has_models = any("(uploaded)" in labels for labels in samples(server, "inferwire_slots"))
    return not (has_jobs or has_states or has_models)


def samples(server: ServerProcess, name: str, label: str = "") -> dict[Labels, float]:
    """Read a metric; if it has a further label, add up its values over that."""
    with urlopen(f"http://{server.host}:{server.http_port}/metrics") as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found: defaultdict[Labels, float] = defaultdict(float)
    for sample in (sample for family in families for sample in family.samples if sample.name == name):
        found[tuple(sample.labels[key] for key in (*_LABELS, label) if key in sample.labels)] += sample.value
    return dict(found)


def miscounted(server: ServerProcess) -> list[str]:
    """Name the models of which not as many jobs have ended as were submitted."""
    submitted = samples(server, "inferwire_submitted_jobs_total")
    ended = samples(server, "inferwire_jobs_total")
    return [
        f"{' '.join(labels)}: {count:.0f} submitted, {ended.get(labels, 0):.0f} ended"
        for labels, count in submitted.items()
        if count != ended.get(labels, 0)
    ]


def _get(server: ServerProcess, path: str) -> Any:
    with urlopen(f"http://{server.host}:{server.http_port}{path}") as answer:
        return json.load(answer)
