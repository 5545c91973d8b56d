"""Requests that read each other's tensors: the same values, wherever the tensors are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.mirror.conftest import Runtime

ROW = np.array([[1, -2, 3]], np.float32)


@pytest.fixture
def chain(runtime: Runtime) -> tuple[Any, Any]:
    """Two requests, the second of which reads what the first leaves."""
    compiled = runtime.compile("relu")
    first, second = compiled.create_infer_request(), runtime.compile("relu").create_infer_request()
    second.set_input_tensor(first.get_output_tensor())
    return first, second


def run(request: Any, inputs: Any = None) -> None:
    request.start_async(inputs)
    request.wait()


def test_the_second_sees_each_round_of_the_first(chain: tuple[Any, Any]) -> None:
    first, second = chain
    for value in (1, 2, 3):
        run(first, ROW * value)
        run(second)
        assert second.results[0].tolist() == [[value, 0, 3 * value]]


def test_results_stay_what_they_were(chain: tuple[Any, Any]) -> None:
    first, second = chain
    results = [first.infer(ROW * value) for value in (1, 2, 3)]
    assert second.infer()[0].tolist() == [[3, 0, 9]]
    assert [each[0].tolist() for each in results] == [[[value, 0, 3 * value]] for value in (1, 2, 3)]


def test_shared_results_change_with_the_next_inference(chain: tuple[Any, Any]) -> None:
    first, second = chain
    shared = first.infer(ROW, share_outputs=True)[0]
    first.infer(ROW * 2)
    second.infer()
    assert shared.tolist() == [[2, 0, 6]]


def test_a_view_changes_with_the_next_inference(chain: tuple[Any, Any]) -> None:
    first, second = chain
    run(first, ROW)
    view = first.get_output_tensor().data
    assert view.tolist() == [[1, 0, 3]]
    run(first, ROW * 2)
    run(second)
    assert view.tolist() == [[2, 0, 6]]
    assert second.get_output_tensor().data.tolist() == [[2, 0, 6]]


def test_what_is_written_between_is_what_the_second_reads(chain: tuple[Any, Any]) -> None:
    first, second = chain
    run(first, ROW)
    first.get_output_tensor().data[0, 1] = 5
    run(second)
    assert second.results[0].tolist() == [[1, 5, 3]]


def test_a_request_reads_what_it_left_itself(runtime: Runtime) -> None:
    request = runtime.compile("two").create_infer_request()
    request.set_tensor("a", request.get_tensor("sum"))
    request.get_tensor("sum").data[:] = 1
    request.set_tensor("b", runtime.ov.Tensor(ROW))
    for _ in range(3):
        run(request)
    assert request.get_tensor("sum").data.tolist() == [[4, -5, 10]]


def test_both_outputs_feed_both_inputs(runtime: Runtime) -> None:
    compiled = runtime.compile("two")
    first, second = compiled.create_infer_request(), compiled.create_infer_request()
    second.set_tensor("a", first.get_tensor("difference"))
    second.set_tensor("b", first.get_tensor("sum"))
    run(first, {"a": ROW * 2, "b": ROW})
    run(second)
    assert second.get_tensor("sum").data.tolist() == (ROW * 4).tolist()
    assert second.get_tensor("difference").data.tolist() == (ROW * -2).tolist()


def test_a_region_of_an_output_is_an_input(runtime: Runtime) -> None:
    compiled = runtime.compile("dynamic")
    first, second = compiled.create_infer_request(), compiled.create_infer_request()
    second.set_input_tensor(first.get_output_tensor())
    for rows in (4, 6):
        run(first, np.arange(3 * rows, dtype=np.float32).reshape(rows, 3))
        second.set_input_tensor(runtime.ov.Tensor(first.get_output_tensor(), [1, 0], [3, 3]))
        run(second)
        assert second.results[0].tolist() == [[3, 4, 5], [6, 7, 8]]


def test_the_first_may_change_its_shape(runtime: Runtime) -> None:
    compiled = runtime.compile("dynamic")
    first, second = compiled.create_infer_request(), compiled.create_infer_request()
    second.set_input_tensor(first.get_output_tensor())
    for rows in (1, 3, 2):
        run(first, np.full((rows, 3), rows, np.float32))
        run(second)
        assert list(second.get_output_tensor().shape) == [rows, 3]
        assert second.results[0].tolist() == [[rows] * 3] * rows


def test_memory_of_the_users_is_filled_in_between(runtime: Runtime, chain: tuple[Any, Any]) -> None:
    first, second = chain
    array = np.zeros((1, 3), np.float32)
    first.set_output_tensor(runtime.ov.Tensor(array, shared_memory=True))
    second.set_input_tensor(first.get_output_tensor())
    run(first, ROW)
    run(second)
    assert array.tolist() == [[1, 0, 3]]
    assert second.results[0].tolist() == [[1, 0, 3]]


def test_callbacks_start_the_next_stage(chain: tuple[Any, Any]) -> None:
    first, second = chain

    def start(stage: Any) -> None:
        stage.start_async()

    first.set_callback(start, second)
    first.start_async(ROW)
    first.wait()
    second.wait()
    assert second.results[0].tolist() == [[1, 0, 3]]
