"""Each layer's time behaves as openvino's, where a model is timed and where it is not."""

from __future__ import annotations

import copy
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ONES = np.ones((1, 3), np.float32)
NOTHING = timedelta(0)


def rows_of(request: Any) -> list[tuple[str, str, str]]:
    return [(row.node_name, row.node_type, row.status.name) for row in request.profiling_info]


@pytest.mark.parametrize("config", [{}, {"PERF_COUNT": True}, {"PERF_COUNT": "YES"}], ids=str)
def test_layers_are_timed_where_that_was_asked_for(runtime: Any, config: dict[str, Any]) -> None:
    request = runtime.compile("two", **config).create_infer_request()
    before = rows_of(request)
    assert {status for _, _, status in before} == {"NOT_RUN"}
    assert {"Parameter", "Subgraph", "Result"} <= {kind for _, kind, _ in before}
    assert {"a", "b"} <= {name for name, _, _ in before}
    request.infer([ONES, ONES])
    after = request.get_profiling_info()
    assert [(row.node_name, row.node_type) for row in after] == [(name, kind) for name, kind, _ in before]
    for row in after:
        assert isinstance(row.exec_type, str)
        assert row.exec_type
        if row.status == row.Status.NOT_RUN:
            assert row.real_time == row.cpu_time == NOTHING
    # A layer that is faster than a microsecond counts as one that has not run.
    assert any(row.status == row.EXECUTED and row.real_time > NOTHING for row in after) == bool(config)
    assert repr(after[0]) == "<ProfilingInfo>"


@pytest.mark.parametrize("device", ["AUTO", "HETERO:CPU", "MULTI:CPU"])
def test_virtual_devices(runtime: Any, device: str) -> None:
    request = runtime.core.compile_model(runtime.models["two"], device, {"PERF_COUNT": True}).create_infer_request()
    request.infer([ONES, ONES])
    assert "EXECUTED" in {status for _, _, status in rows_of(request)}
    assert all(name.startswith("subgraph0: ") for name, _, _ in rows_of(request)) == (device == "HETERO:CPU")


def test_asynchronous_executions_are_timed(runtime: Any) -> None:
    request = runtime.compile("two", PERF_COUNT=True).create_infer_request()
    seen: list[set[str]] = []

    def note(own: Any) -> None:
        seen.append({status for _, _, status in rows_of(own)})

    request.set_callback(note, request)
    request.start_async([ONES, ONES])
    request.wait()
    assert "EXECUTED" in seen[0]


def test_a_failed_execution_has_the_times_up_to_its_failure(runtime: Any) -> None:
    request = runtime.compile("failing", PERF_COUNT=True).create_infer_request()
    with pytest.raises(RuntimeError, match="conflicts with the reshape pattern"):
        request.infer([np.ones(6, np.float32), np.array([4, 4])])
    states = {kind: status for _, kind, status in rows_of(request)}
    assert (states["Reorder"] if "Reorder" in states else states["Convert"]) == "EXECUTED"
    assert states["Reshape"] == "NOT_RUN"


def test_a_model_with_states_is_timed(runtime: Any) -> None:
    vad = Path(__file__).parents[2] / "deploy/models/silero_vad_stateful/1/silero_vad_stateful.xml"
    request = runtime.core.compile_model(vad, "CPU", {"PERF_COUNT": True}).create_infer_request()
    request.infer(np.zeros((1, 576), np.float32))
    assert "EXECUTED" in {status for _, _, status in rows_of(request)}


def test_a_busy_request_has_no_profile(runtime: Any) -> None:
    request = runtime.compile("slow", PERF_COUNT=True).create_infer_request()
    request.start_async(np.ones(1, np.float32))
    try:
        for call in (lambda: request.profiling_info, request.get_profiling_info):
            with pytest.raises(RuntimeError, match="Infer Request is busy"):
                call()
    finally:
        request.cancel()


def test_a_row_of_ones_own(ov: Any) -> None:
    row = ov.ProfilingInfo()
    assert (row.node_name, row.node_type, row.exec_type) == ("", "", "")
    assert row.status == ov.ProfilingInfo.NOT_RUN
    assert (repr(row.EXECUTED), str(row.NOT_RUN), int(row.OPTIMIZED_OUT)) == (
        "<Status.EXECUTED: 2>",
        "Status.NOT_RUN",
        1,
    )
    assert list(ov.ProfilingInfo.Status.__members__) == ["NOT_RUN", "OPTIMIZED_OUT", "EXECUTED"]
    row.node_name, row.node_type, row.exec_type = "a", "b", "c"
    row.status, row.real_time, row.cpu_time = row.EXECUTED, timedelta(seconds=1), 1.5
    assert (row.node_name, row.node_type, row.exec_type, row.status) == ("a", "b", "c", row.EXECUTED)
    assert (row.real_time, row.cpu_time) == (timedelta(seconds=1), timedelta(seconds=1.5))
    assert row != ov.ProfilingInfo()
    for name, value in (("node_name", 3), ("status", 1), ("real_time", 2), ("cpu_time", "x")):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            setattr(row, name, value)
    with pytest.raises(AttributeError):
        row.unknown = 1
    with pytest.raises(TypeError, match="pickle"):
        copy.copy(row)
