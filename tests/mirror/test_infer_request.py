"""A request behaves as openvino's, call by call, over a real socket."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

LONG_MS = 60_000

X: NDArray[np.float32] = np.array([[1, -2, 3]], np.float32)
RELU_X = [[1, 0, 3]]


@pytest.fixture
def request_(runtime: Any) -> Any:
    return runtime.compile("relu").create_infer_request()


@pytest.fixture
def slow(runtime: Any) -> Any:
    """A request that runs for seconds, unless it is cancelled."""
    request = runtime.compile("slow").create_infer_request()
    request.start_async(np.ones(1, np.float32))
    yield request
    request.cancel()
    with pytest.raises(RuntimeError, match="Infer Request was canceled"):
        request.wait()


def test_infer_gives_a_mapping_of_fresh_arrays(request_: Any) -> None:
    results = request_.infer(X)
    assert results[0].tolist() == RELU_X
    assert results["out"] is results[0]
    assert results[0].flags.owndata
    assert results[0].flags.c_contiguous
    request_.infer(X * 2)
    assert results[0].tolist() == RELU_X


def test_results_tell_which_outputs_there_are(runtime: Any, request_: Any) -> None:
    results = request_.infer(X)
    assert all(key in results for key in ("out", 0, -1, request_.model_outputs[0]))
    assert not any(key in results for key in ("zz", 1, -2, runtime.compile("two").output(0)))
    with pytest.raises(TypeError, match="Unknown key type"):
        assert 0.5 in results


def test_start_and_wait(request_: Any) -> None:
    assert request_.start_async(X) is None
    assert request_.wait() is None
    assert request_.results["out"].tolist() == RELU_X
    assert request_.wait() is None
    assert request_.wait_for(0) is True


def test_a_request_that_never_started(request_: Any) -> None:
    assert request_.wait() is None
    assert request_.wait_for(0) is False
    assert request_.latency == 0.0
    assert request_.userdata is None
    assert request_.cancel() is None
    assert request_.results[0].shape == (1, 3)


def test_latency_is_set_by_an_inference(request_: Any) -> None:
    request_.infer(X)
    assert isinstance(request_.latency, float)
    assert request_.latency > 0


def test_a_negative_time_out(request_: Any) -> None:
    with pytest.raises(RuntimeError, match=r"Timeout can't be less than 0 for InferRequest::wait\(\)"):
        request_.wait_for(-1)


@pytest.mark.parametrize("arguments", [(1.5,), ("x",), (), (2**31,), (10**13,), (10**400,), (-(2**31) - 1,)])
def test_a_time_out_that_is_no_integer_of_32_bits(request_: Any, arguments: tuple[Any, ...]) -> None:
    request_.start_async(X)
    with pytest.raises(TypeError):
        request_.wait_for(*arguments)
    assert request_.wait_for(2**31 - 1) is True


BUSY_CALLS: dict[str, Callable[[Any, Any], object]] = {
    "infer": lambda request, ov: request.infer(np.ones(1, np.float32)),
    "infer shared": lambda request, ov: request.infer(np.ones(1, np.float32), share_inputs=True),
    "infer nothing": lambda request, ov: request.infer(),
    "start_async": lambda request, ov: request.start_async(np.ones(1, np.float32)),
    "results": lambda request, ov: request.results,
    "input_tensors": lambda request, ov: request.input_tensors,
    "output_tensors": lambda request, ov: request.output_tensors,
    "get_tensor": lambda request, ov: request.get_tensor("data"),
    "get_input_tensor": lambda request, ov: request.get_input_tensor(),
    "get_output_tensor": lambda request, ov: request.get_output_tensor(),
    "set_tensor": lambda request, ov: request.set_tensor("data", ov.Tensor(np.ones(1, np.float32))),
    "set_input_tensor": lambda request, ov: request.set_input_tensor(ov.Tensor(np.ones(1, np.float32))),
    "set_output_tensor": lambda request, ov: request.set_output_tensor(ov.Tensor(np.ones(1, np.float32))),
    "set_callback": lambda request, ov: request.set_callback(print, None),
    "query_state": lambda request, ov: request.query_state(),
    "reset_state": lambda request, ov: request.reset_state(),
    "get_profiling_info": lambda request, ov: request.get_profiling_info(),
}


def test_a_busy_request_may_not_be_touched(runtime: Any, slow: Any) -> None:
    for name, call in BUSY_CALLS.items():
        with pytest.raises(RuntimeError, match="Infer Request is busy"):
            print(name, call(slow, runtime.ov))


def test_a_busy_request_answers_what_needs_no_result(slow: Any) -> None:
    assert slow.wait_for(0) is False
    assert slow.userdata is None
    assert isinstance(slow.latency, float)
    assert slow.model_inputs[0].any_name == "data"
    assert slow.model_outputs[0].any_name == "out"
    assert slow.get_compiled_model().inputs[0].any_name == "data"
    assert repr(slow).startswith("<InferRequest:\ninputs[\n<ConstOutput: names[data] shape[1] type: f32>")


def test_cancel_makes_every_wait_raise_and_leaves_the_request_usable(runtime: Any) -> None:
    request = runtime.compile("slow").create_infer_request()
    request.start_async(np.ones(1, np.float32))
    request.cancel()
    for wait in (request.wait, request.wait, lambda: request.wait_for(LONG_MS)):
        with pytest.raises(RuntimeError, match="Infer Request was canceled"):
            wait()
    assert request.results[0].shape == ()


def test_cancel_of_what_has_ended_changes_nothing(request_: Any) -> None:
    request_.start_async(X)
    request_.wait()
    request_.cancel()
    request_.wait()
    assert request_.results[0].tolist() == RELU_X


def test_a_failure_is_raised_by_infer_and_the_next_works(runtime: Any) -> None:
    request = runtime.compile("failing").create_infer_request()
    data = np.arange(6, dtype=np.float32)
    with pytest.raises(RuntimeError, match=r"(?i)shape"):
        request.infer([data, np.array([4, 4])])
    assert request.infer([data, np.array([2, 3])])[0].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_failure_is_raised_by_every_wait_until_the_next_start(runtime: Any) -> None:
    request = runtime.compile("failing").create_infer_request()
    data = np.arange(6, dtype=np.float32)
    request.start_async([data, np.array([4, 4])])
    for wait in (request.wait, request.wait, lambda: request.wait_for(LONG_MS)):
        with pytest.raises(RuntimeError, match=r"(?i)shape"):
            wait()
    request.start_async([data, np.array([3, 2])])
    request.wait()
    assert request.results[0].shape == (3, 2)


def test_a_failure_that_nobody_saw_does_not_stop_the_next(runtime: Any) -> None:
    request = runtime.compile("failing").create_infer_request()
    called: list[Any] = []
    request.set_callback(called.append, "userdata")
    data = np.arange(6, dtype=np.float32)
    request.start_async([data, np.array([4, 4])])
    with pytest.raises(RuntimeError):
        request.wait()
    assert not called
    request.start_async([data, np.array([1, 6])])
    request.wait()
    assert called == ["userdata"]


def test_tensors_are_wrappers_of_the_requests_memory(request_: Any) -> None:
    held = request_.get_output_tensor()
    assert held is not request_.get_output_tensor()
    request_.infer(X)
    assert held.data.tolist() == RELU_X
    request_.infer(X * 2)
    assert held.data.tolist() == [[2, 0, 6]]
    request_.get_input_tensor().data[:] = 7
    assert request_.infer()[0].tolist() == [[7, 7, 7]]


def test_a_held_output_follows_a_dynamic_shape(runtime: Any) -> None:
    request = runtime.compile("dynamic").create_infer_request()
    assert list(request.get_input_tensor().shape) == [0, 3]
    held = request.get_output_tensor()
    for rows in (2, 5, 1):
        assert request.infer(np.ones((rows, 3), np.float32))[0].shape == (rows, 3)
        assert list(held.shape) == [rows, 3]


def test_a_dynamic_request_runs_before_it_has_inputs(runtime: Any) -> None:
    assert runtime.compile("dynamic").create_infer_request().infer()[0].shape == (0, 3)


def test_share_outputs_gives_views(request_: Any) -> None:
    shared = request_.infer(X, share_outputs=True)[0]
    assert not shared.flags.owndata
    assert shared.flags.writeable
    request_.infer(X * 2)
    assert shared.tolist() == [[2, 0, 6]]


def test_an_output_tensor_of_ones_own_is_filled(runtime: Any, request_: Any) -> None:
    own = np.zeros((1, 3), np.float32)
    request_.set_output_tensor(runtime.ov.Tensor(own, shared_memory=True))
    request_.infer(X)
    assert own.tolist() == RELU_X


def test_a_larger_output_tensor_takes_smaller_results_and_refuses_larger(runtime: Any) -> None:
    request = runtime.compile("dynamic").create_infer_request()
    own = np.zeros((3, 3), np.float32)
    request.set_output_tensor(runtime.ov.Tensor(own, shared_memory=True))
    assert request.infer(np.ones((2, 3), np.float32))[0].shape == (2, 3)
    assert own[:2].tolist() == [[1, 1, 1]] * 2
    with pytest.raises(RuntimeError, match=r"Could set new shape: \[4,3\]"):
        request.infer(np.ones((4, 3), np.float32))


def test_ports_and_lists_of_tensors(runtime: Any) -> None:
    compiled = runtime.compile("two")
    request = compiled.create_infer_request()
    assert [port.any_name for port in request.model_inputs] == ["a", "b"]
    assert request.model_inputs[0] == compiled.inputs[0]
    assert [port.any_name for port in request.model_outputs] == ["sum", "difference"]
    assert [list(tensor.shape) for tensor in request.input_tensors] == [[1, 3]] * 2
    assert [list(tensor.shape) for tensor in request.output_tensors] == [[1, 3]] * 2


REFUSED: dict[str, tuple[Callable[[Any, Any], object], type[Exception], str]] = {
    "get_input_tensor past the end": (
        lambda r, t: r.get_input_tensor(5),
        RuntimeError,
        r"vector::_M_range_check: __n \(which is 5\) >= this->size\(\) \(which is 1\)",
    ),
    "get_output_tensor past the end": (
        lambda r, t: r.get_output_tensor(5),
        RuntimeError,
        r"vector::_M_range_check: __n \(which is 5\) >= this->size\(\) \(which is 1\)",
    ),
    "get_input_tensor negative": (lambda r, t: r.get_input_tensor(-1), TypeError, "incompatible function arguments"),
    "get_input_tensor by name": (lambda r, t: r.get_input_tensor("x"), TypeError, "incompatible function arguments"),
    "get_tensor unknown": (lambda r, t: r.get_tensor("zz"), RuntimeError, "Port for tensor name zz was not found."),
    "get_tensor by position": (lambda r, t: r.get_tensor(0), TypeError, "incompatible function arguments"),
    "set_input_tensor past the end": (
        lambda r, t: r.set_input_tensor(5, t(np.ones((1, 3), np.float32))),
        RuntimeError,
        "Input port for index 5 was not found! The model has only 1 inputs.",
    ),
    "set_output_tensor past the end": (
        lambda r, t: r.set_output_tensor(5, t(np.ones((1, 3), np.float32))),
        RuntimeError,
        "Output port for index 5 was not found! The model has only 1 outputs.",
    ),
    "set_input_tensor of an array": (
        lambda r, t: r.set_input_tensor(np.ones((1, 3), np.float32)),
        TypeError,
        "incompatible function arguments",
    ),
    "set_input_tensor with its position behind it": (
        lambda r, t: r.set_input_tensor(t(np.ones((1, 3), np.float32)), 0),
        TypeError,
        "incompatible function arguments",
    ),
    "set_input_tensor of three": (
        lambda r, t: r.set_input_tensor(t(np.ones((1, 3), np.float32)), 1, 2),
        TypeError,
        "incompatible function arguments",
    ),
    "set_output_tensor of four": (
        lambda r, t: r.set_output_tensor(t(np.ones((1, 3), np.float32)), "nonsense", None, 4),
        TypeError,
        "incompatible function arguments",
    ),
    "set_output_tensor of nothing": (lambda r, t: r.set_output_tensor(), TypeError, "incompatible function arguments"),
    "set_output_tensor of a position alone": (
        lambda r, t: r.set_output_tensor(index=0),
        TypeError,
        "incompatible function arguments",
    ),
    "set_tensor unknown": (
        lambda r, t: r.set_tensor("zz", t(np.ones((1, 3), np.float32))),
        RuntimeError,
        "Port for tensor name zz was not found.",
    ),
    "set_tensor by position": (
        lambda r, t: r.set_tensor(0, t(np.ones((1, 3), np.float32))),
        TypeError,
        "incompatible function arguments",
    ),
    "input of another shape": (
        lambda r, t: r.set_input_tensor(t(np.ones((2, 3), np.float32))),
        RuntimeError,
        (
            r"Can't set the input tensor with index: 0, because the model input \(shape=\[1,3\]\) "
            r"and the tensor \(shape=\(2.3\)\) are incompatible"
        ),
    ),
    "input of another type": (
        lambda r, t: r.set_tensor("data", t(np.ones((1, 3)))),
        RuntimeError,
        (
            "ParameterMismatch: Failed to set tensor for input with precision: f64, "
            "since the model input tensor precision is: f32"
        ),
    ),
    "output of another shape": (
        lambda r, t: r.set_tensor("out", t(np.ones((2, 3), np.float32))),
        RuntimeError,
        (
            r"Can't set the output tensor with index: 0, because the model output tensor \(shape=\[1,3\]\) "
            r"and the current tensor \(shape=\(2.3\)\) are incompatible"
        ),
    ),
    "output without elements": (
        lambda r, t: r.set_output_tensor(t(np.ones((0, 3), np.float32))),
        RuntimeError,
        (
            "Can't set the output tensor with index: 0, because the model output size = 3 "
            "and the currernt tensor size = 0 are different"
        ),
    ),
    "output of another type": (
        lambda r, t: r.set_output_tensor(t(np.ones((1, 3)))),
        RuntimeError,
        (
            "ParameterMismatch: Failed to set tensor for output with precision: f64, "
            "if model output tensor precision is: f32"
        ),
    ),
    "set_input_tensors by name": (
        lambda r, t: r.set_input_tensors({"data": t(np.ones((1, 3), np.float32))}),
        TypeError,
        "incompatible function arguments!",
    ),
    "set_output_tensors by name": (
        lambda r, t: r.set_output_tensors({"out": t(np.ones((1, 3), np.float32))}),
        TypeError,
        "incompatible function arguments!",
    ),
    "set_tensors of numbers": (
        lambda r, t: r.set_tensors({"data": 3}),
        TypeError,
        "Unable to cast <class 'int'> object to ov::Tensor",
    ),
    "set_tensors with a key of another kind": (
        lambda r, t: r.set_tensors({0.0: t(np.ones((1, 3), np.float32))}),
        RuntimeError,
        r"Unable to cast Python instance of type <class 'float'> to C\+\+ type '\?'",
    ),
    "set_tensors of numbers under a key of another kind": (
        lambda r, t: r.set_tensors({None: 3}),
        TypeError,
        "Unable to cast <class 'int'> object to ov::Tensor",
    ),
    "set_input_tensors of an array": (
        lambda r, t: r.set_input_tensors({0: np.ones((1, 3), np.float32)}),
        RuntimeError,
        "Unable to cast tensor 0!",
    ),
    "set_output_tensors of an array": (
        lambda r, t: r.set_output_tensors({-1: np.ones((1, 3), np.float32)}),
        RuntimeError,
        "Unable to cast tensor -1!",
    ),
    "set_callback without userdata": (
        lambda r, t: r.set_callback(print),
        TypeError,
        "incompatible function arguments",
    ),
    "set_callback of a number": (
        lambda r, t: r.set_callback(3, None),
        TypeError,
        "incompatible function arguments",
    ),
    "an unknown keyword": (
        lambda r, t: r.infer(X, shared=True),
        TypeError,
        "unexpected keyword argument 'shared'",
    ),
}


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_does_not_fit_is_refused(
    runtime: Any, request_: Any, call: Callable[[Any, Any], object], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        call(request_, runtime.ov.Tensor)
    assert request_.infer(X)[0].tolist() == RELU_X


def test_one_input_must_be_named_where_there_are_two(runtime: Any) -> None:
    request = runtime.compile("two").create_infer_request()
    for call, name in ((request.get_input_tensor, "get"), (request.get_output_tensor, "get")):
        with pytest.raises(RuntimeError, match=rf"{name}_\w+_tensor\(\) must be called on a function with exactly one"):
            call()
    with pytest.raises(RuntimeError, match=r"set_input_tensor\(\) must be called on a function with exactly one"):
        request.set_input_tensor(runtime.ov.Tensor(X))


def test_several_tensors_at_once(runtime: Any) -> None:
    compiled = runtime.compile("two")
    request = compiled.create_infer_request()
    tensor = runtime.ov.Tensor
    ways = (
        (request.set_tensors, {"a": tensor(X), "b": tensor(X)}),
        (request.set_tensors, {0: tensor(X * 2), compiled.input(1): tensor(X)}),
        (request.set_input_tensors, {0: tensor(X * 3), 1: tensor(X)}),
    )
    for factor, (set_them, tensors) in enumerate(ways, 1):
        set_them(tensors)
        assert request.infer()["sum"].tolist() == (X * (factor + 1)).tolist()
    own = np.zeros((1, 3), np.float32)
    request.set_output_tensors({1: tensor(own, shared_memory=True)})
    request.infer()
    assert own.tolist() == (X * 2).tolist()


def test_the_callback_gets_userdata_and_may_read_results(request_: Any) -> None:
    seen: list[Any] = []

    def callback(userdata: Any) -> None:
        seen.append((userdata, request_.results[0].tolist()))

    request_.set_callback(callback, "first")
    for userdata in (None, "second", None):
        request_.start_async(X, userdata)
        request_.wait()
    request_.infer(X)
    assert seen == [(name, RELU_X) for name in ("first", "second", "second")]
    assert request_.userdata == "second"


def test_userdata_without_a_callback(request_: Any) -> None:
    with pytest.warns(RuntimeWarning, match="There is no callback function!"):
        request_.start_async(X, "userdata")
    request_.wait()
    assert request_.userdata is None


def test_what_a_callback_raises(request_: Any) -> None:
    def callback(userdata: Any) -> None:
        raise ValueError(f"boom {userdata}")

    request_.set_callback(callback, 7)
    request_.start_async(X)
    for wait in (request_.wait, request_.wait, lambda: request_.wait_for(LONG_MS)):
        with pytest.raises(
            RuntimeError, match=r"ValueError: boom 7\n\nAt:\n  .*test_infer_request.py\(\d+\): callback"
        ):
            wait()
    assert request_.results[0].tolist() == RELU_X


def test_a_callback_raises_what_says_nothing(request_: Any) -> None:
    def callback(userdata: Any) -> None:
        raise userdata

    noted = ValueError("boom")
    noted.add_note("first")
    noted.add_note("second")
    emptied = ValueError("boom")
    emptied.__notes__ = []
    beside = "[WITH __notes__]" if sys.version_info >= (3, 12) else ""
    for error, text in (
        (ValueError(), "ValueError: <EMPTY MESSAGE>\n\nAt:\n  "),
        (noted, f"ValueError{beside}: boom\n__notes__ (len=2):\nfirst\nsecond\n\nAt:\n  "),
        (emptied, f"ValueError{beside}: boom\n__notes__ (len=0):\n\nAt:\n  "),
        (BaseException(" "), "BaseException:  \n\nAt:\n  "),
    ):
        request_.set_callback(callback, error)
        request_.start_async(X)
        with pytest.raises(RuntimeError, match=re.escape(text)):
            request_.wait()


def test_a_callback_that_cannot_be_called_is_nowhere(request_: Any) -> None:
    request_.set_callback(lambda: None, None)
    request_.start_async(X)
    with pytest.raises(RuntimeError, match=r"takes 0 positional arguments but 1 was given") as caught:
        request_.wait()
    assert "At:" not in str(caught.value)


def test_a_callback_may_start_its_request_again(request_: Any) -> None:
    seen: list[int] = []

    def callback(userdata: Any) -> None:
        seen.append(len(seen))
        if len(seen) < 5:
            request_.start_async(X)

    request_.set_callback(callback, None)
    request_.start_async(X)
    while len(seen) < 5:
        request_.wait()
    assert seen == [0, 1, 2, 3, 4]


def test_a_request_outlives_its_compiled_model(runtime: Any) -> None:
    request = runtime.compile("relu").create_infer_request()
    assert request.infer(X)[0].tolist() == RELU_X


def test_a_class_derived_from_a_request(runtime: Any) -> None:
    class Counting(runtime.ov.InferRequest):
        def __init__(self, compiled: Any) -> None:
            super().__init__(compiled.create_infer_request())
            self.count = 0

        def infer(self, *args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return super().infer(*args, **kwargs)

    request = Counting(runtime.compile("relu"))
    assert repr(request).startswith("<Counting:\ninputs[")
    assert request.infer(np.array([[-1, 2, 3]], np.float32))["out"].tolist() == [[0, 2, 3]]
    assert request.count == 1
    assert type(request.get_compiled_model()) is runtime.ov.CompiledModel


def test_a_request_of_another_is_the_same_request(runtime: Any) -> None:
    request = runtime.compile("relu").create_infer_request()
    same = runtime.ov.InferRequest(other=request)
    called: list[int] = []
    request.set_callback(called.append, 5)
    same.start_async(np.array([[-1, 2, 3]], np.float32))
    request.wait()
    assert called == [5]
    assert same.userdata == 5
    assert request.results["out"].tolist() == same.results["out"].tolist() == [[0, 2, 3]]
    same.set_input_tensor(runtime.ov.Tensor(np.ones((1, 3), np.float32)))
    assert request.get_input_tensor().data.tolist() == [[1, 1, 1]]
    for wrong in (3, None, request.get_compiled_model()):
        with pytest.raises(TypeError, match=r"__init__\(\): incompatible constructor arguments"):
            runtime.ov.InferRequest(wrong)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'other'"):
        runtime.ov.InferRequest()
