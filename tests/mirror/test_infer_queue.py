"""The pool behaves as openvino's, but for what would lose requests or end the process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

X: NDArray[np.float32] = np.array([[1, -2, 3]], np.float32)
SIX = np.arange(6, dtype=np.float32)


def test_callbacks_see_their_results_and_userdata(runtime: Any) -> None:
    queue = runtime.ov.AsyncInferQueue(runtime.compile("relu"), 3)
    seen: dict[int, list[Any]] = {}

    def callback(request: Any, index: int) -> None:
        seen[index] = request.get_output_tensor().data.tolist()

    queue.set_callback(callback)
    for index in range(20):
        queue.start_async({"data": X * index}, index)
    queue.wait_all()
    assert seen == {index: [[index, 0, 3 * index]] for index in range(20)}


def test_the_number_of_jobs(runtime: Any) -> None:
    compiled = runtime.compile("relu")
    queue = runtime.ov.AsyncInferQueue(compiled, 3)
    assert len(queue) == 3
    assert repr(queue) == "<AsyncInferQueue: 3 jobs>"
    assert len(list(queue)) == 3
    assert len(runtime.ov.AsyncInferQueue(compiled)) >= compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")


def test_classes_derived_from_ours_have_their_own_names(runtime: Any) -> None:
    class Pool(runtime.ov.AsyncInferQueue):
        pass

    class Devices(runtime.ov.Core):
        pass

    assert repr(Pool(runtime.compile("relu"), 3)) == "<Pool: 3 jobs>"
    assert repr(Devices()).startswith("<Devices: ")


@pytest.mark.parametrize("jobs", [-1, "x", 1.5])
def test_a_number_of_jobs_that_is_none(runtime: Any, jobs: Any) -> None:
    with pytest.raises(TypeError, match=r"__init__\(\): incompatible constructor arguments"):
        runtime.ov.AsyncInferQueue(runtime.compile("relu"), jobs)


def test_a_negative_position_is_no_position(runtime: Any) -> None:
    queue = runtime.ov.AsyncInferQueue(runtime.compile("relu"), 2)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        queue[-1]


def test_a_callback_that_is_none(runtime: Any) -> None:
    queue = runtime.ov.AsyncInferQueue(runtime.compile("relu"), 2)
    with pytest.raises(TypeError, match=r"set_callback\(\): incompatible function arguments"):
        queue.set_callback(3)


def test_userdata_is_kept_per_request(runtime: Any) -> None:
    queue = runtime.ov.AsyncInferQueue(runtime.compile("relu"), 1)
    assert queue.userdata == [None]
    queue.start_async(X, "userdata")
    queue.wait_all()
    assert queue.userdata == ["userdata"]
    assert queue[0].userdata is None
    queue.start_async(X)
    queue.wait_all()
    assert queue.userdata == [None]


def test_results_stay_in_the_requests(runtime: Any) -> None:
    queue = runtime.ov.AsyncInferQueue(runtime.compile("relu"), 1)
    queue.start_async(X)
    queue.wait_all()
    assert queue[0].results[0].tolist() == [[1, 0, 3]]
    assert queue.is_ready()
    assert queue.get_idle_request_id() == 0


def test_a_busy_queue_takes_no_callback(runtime: Any) -> None:
    queue = runtime.ov.AsyncInferQueue(runtime.compile("slow"), 1)
    queue.start_async(np.ones(1, np.float32))
    assert not queue.is_ready()
    with pytest.raises(RuntimeError, match="Infer Request is busy"):
        queue.set_callback(print)
    queue[0].cancel()
    with pytest.raises(RuntimeError, match="Infer Request was canceled"):
        queue.wait_all()


def test_an_unknown_name_loses_no_request(runtime: Any) -> None:
    queue = runtime.ov.AsyncInferQueue(runtime.compile("relu"), 1)
    with pytest.raises(RuntimeError, match="Port for tensor name zz was not found"):
        queue.start_async({"zz": X})
    assert queue.is_ready()
    queue.start_async(X)
    queue.wait_all()


@pytest.mark.parametrize("ask", ["wait_all", "get_idle_request_id", "start_async"])
def test_a_failed_job_is_told_to_who_asks_next(runtime: Any, ask: str) -> None:
    queue = runtime.ov.AsyncInferQueue(runtime.compile("failing"), 1)
    queue.start_async([SIX, np.array([4, 4])])
    with pytest.raises(RuntimeError, match=r"(?i)shape"):
        getattr(queue, ask)()


def test_what_a_callback_raises_keeps_its_type(runtime: Any) -> None:
    def callback(request: Any, userdata: Any) -> None:
        raise ZeroDivisionError("boom")

    queue = runtime.ov.AsyncInferQueue(runtime.compile("relu"), 1)
    queue.set_callback(callback)
    queue.start_async(X)
    with pytest.raises(ZeroDivisionError, match="boom"):
        queue.wait_all()


def test_a_callback_may_start_another(runtime: Any) -> None:
    queue = runtime.ov.AsyncInferQueue(runtime.compile("relu"), 2)
    seen: list[int] = []

    def callback(request: Any, left: int) -> None:
        seen.append(left)
        if left:
            queue.start_async(X, left - 1)

    queue.set_callback(callback)
    queue.start_async(X, 5)
    while len(seen) < 6:
        queue.wait_all()
    assert seen == [5, 4, 3, 2, 1, 0]
