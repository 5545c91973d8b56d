"""The Open Inference Protocol's statistics extension: what both of its interfaces share.

It knows neither protobuf nor JSON: the protocol names the fields of both alike, and so do the values here.
"""

from __future__ import annotations

from typing import Any

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.tally import Durations
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service import Services
from inferwire_server.service.statistics import ModelStatistics


def statistics(services: Services, name: str = "", version: str = "") -> list[dict[str, Any]]:
    """Describe what was counted of one model, or of all that are ready.

    Raises:
        ServingError: INVALID_INPUT for a model that is not ready, in the words that clients know.
    """
    try:
        found = services.statistics.read(name, version)
    except ServingError as error:
        if error.code is not Code.MODEL_NOT_FOUND:
            raise
        found = []
    if name and not found:
        if version and services.models.versions(name):
            raise invalid_input(f"requested model version is not available for model '{name}': version {version}")
        raise invalid_input(f"requested model '{name}' is not available")
    return list(map(_described, found))


def _described(model: ModelStatistics) -> dict[str, Any]:
    rows = sum(rows * runs.count for rows, runs in model.runs.items())
    return {
        "name": model.name,
        "version": model.version,
        "last_inference": 0 if model.last_s is None else round(model.last_s * 1e3),
        "inference_count": rows,
        "execution_count": sum(runs.count for runs in model.runs.values()),
        "inference_stats": {
            "success": _duration(model.success),
            "fail": _duration(model.fail),
            "queue": _duration(model.queue),
            **_phases(model.compute),
            "cache_hit": _duration(Durations()),
            "cache_miss": _duration(Durations()),
        },
        "batch_stats": [{"batch_size": rows, **_phases(runs)} for rows, runs in model.runs.items()],
    }


def _phases(compute: Durations) -> dict[str, dict[str, int]]:
    """Describe the time in slots. Inputs are read where they lie, so that bringing them in and out is part of it."""
    beside = Durations(compute.count)
    return {
        "compute_input": _duration(beside),
        "compute_infer": _duration(compute),
        "compute_output": _duration(beside),
    }


def _duration(durations: Durations) -> dict[str, int]:
    return {"count": durations.count, "ns": round(durations.seconds * 1e9)}
