"""Random programs do the same with either module: whatever was called before, a call gives the same or is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import openvino
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from numpy.typing import NDArray

import inferwire

INPUTS = {"relu": ["data"], "integers": ["data"], "dynamic": ["data"], "scalar": ["data"], "two": ["a", "b"]}
SHAPES = [(1, 3), (1, 3), (), (), (2, 3), (3,)]
DTYPES = [*[np.float32] * 6, np.int64, np.float64, np.bool_]
KEYS = [0, 1, 2, "data", "a", "b", "zz", 0.5]
NAMES = ["data", "a", "b", "zz", "out", "sum", "difference", 0, None]


def _value(ov: Any, array: NDArray[Any], is_tensor: bool) -> Any:
    return ov.Tensor(array) if is_tensor else array


def _with_gaps(array: NDArray[Any]) -> NDArray[Any]:
    return np.stack([array, array], axis=-1)[..., 0]


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def _outcome(act: Callable[[], Any]) -> object:
    """What a call gives, or that it is refused; of several mistakes, either module may tell another first."""
    try:
        return _plain(act())
    except (TypeError, ValueError, RuntimeError):
        return "refused"


def _plain(value: Any) -> object:
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tolist(), value.flags.writeable, value.flags.c_contiguous
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value if value is None else [(port.any_name, _plain(array)) for port, array in value.items()]


def _held(request: Any) -> tuple[Any, ...]:
    return tuple(tensor.data for tensor in (*request.input_tensors, *request.output_tensors))


@st.composite
def arrays(draw: st.DrawFn) -> NDArray[Any]:
    """An array that fits or does not, with gaps or in another order at times."""
    shape, first = draw(st.sampled_from(SHAPES)), draw(st.integers(-3, 3))
    array = np.arange(first, first + int(np.prod(shape))).reshape(shape).astype(draw(st.sampled_from(DTYPES)))
    laid_out: list[Callable[[NDArray[Any]], NDArray[Any]]] = [
        np.copy,
        np.copy,
        np.asfortranarray,
        _with_gaps,
        _read_only,
    ]
    return draw(st.sampled_from(laid_out))(array)


@st.composite
def inputs(draw: st.DrawFn) -> Callable[[Any], Any]:
    """What makes the inputs of a call for a module: arrays and tensors, alone, in order or by keys."""
    values = draw(st.lists(st.tuples(arrays(), st.booleans()), max_size=2))
    keys = draw(st.none() | st.lists(st.sampled_from(KEYS), min_size=len(values), max_size=len(values), unique_by=str))
    if keys is not None:
        return lambda ov: {key: _value(ov, *value) for key, value in zip(keys, values, strict=True)}
    if len(values) == 1 and draw(st.booleans()):
        return lambda ov: _value(ov, *values[0])
    return lambda ov: [_value(ov, *value) for value in values]


class Programs(RuleBasedStateMachine):
    """Calls of a request of each module, one for one."""

    models: ClassVar[Mapping[str, Path]]
    cores: ClassVar[list[Any]]
    compiled: ClassVar[dict[str, list[Any]]] = {}

    @initialize(model=st.sampled_from(list(INPUTS)))
    def create(self, model: str) -> None:
        if model not in self.compiled:
            precise = {"INFERENCE_PRECISION_HINT": "f32"}
            self.compiled[model] = [core.compile_model(self.models[model], "CPU", precise) for core in self.cores]
        self.requests = [each.create_infer_request() for each in self.compiled[model]]
        for request in self.requests:
            for tensor in (*request.input_tensors, *request.output_tensors):
                tensor.data[...] = 0  # which nobody has set yet

    @rule(given=inputs(), share=st.booleans())
    def infer(self, given: Callable[[Any], Any], *, share: bool) -> None:
        # Shared inputs are left out: openvino reads their memory when it is no longer there.
        self.both(lambda ov, request: request.infer(given(ov), share_outputs=share))

    @rule(given=inputs())
    def start_and_wait(self, given: Callable[[Any], Any]) -> None:
        self.both(lambda ov, request: (request.start_async(given(ov)), request.wait()))

    @rule(key=st.sampled_from(NAMES), array=arrays())
    def set_tensor(self, key: Any, array: NDArray[Any]) -> None:
        self.both(lambda ov, request: request.set_tensor(key, ov.Tensor(array)))

    @rule(index=st.sampled_from([0, 1, -1, True, None]), array=arrays())
    def set_input_tensor(self, index: Any, array: NDArray[Any]) -> None:
        self.both(lambda ov, request: request.set_input_tensor(index, ov.Tensor(array)))

    @rule(array=arrays())
    def set_only_output_tensor(self, array: NDArray[Any]) -> None:
        self.both(lambda ov, request: request.set_output_tensor(ov.Tensor(array)))

    @rule(key=st.sampled_from(NAMES), number=st.integers(0, 9))
    def write(self, key: Any, number: int) -> None:
        self.both(lambda ov, request: np.copyto(request.get_tensor(key).data, number, casting="unsafe"))

    @rule(key=st.sampled_from(NAMES))
    def get_tensor(self, key: Any) -> None:
        self.both(lambda ov, request: request.get_tensor(key).data)

    def both(self, act: Callable[[Any, Any], object]) -> None:
        """Act on either request: what comes of it, and what the tensors hold then, has to be the same."""
        theirs, ours = (
            (
                _outcome(lambda ov=ov, request=request: act(ov, request)),
                _outcome(lambda request=request: _held(request)),
            )
            for ov, request in zip((openvino, inferwire), self.requests, strict=True)
        )
        assert ours == theirs


def test_random_programs(server_address: str, models: Mapping[str, Path]) -> None:
    Programs.models, Programs.cores = models, [openvino.Core(), inferwire.Core(server_address)]
    run_state_machine_as_test(Programs, settings=settings(max_examples=100, stateful_step_count=12, derandomize=True))
