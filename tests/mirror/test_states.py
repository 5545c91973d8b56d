"""States that a model keeps between the inferences of a request, as openvino keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from tests.mirror.conftest import STATES, Runtime

SILERO = Path(__file__).resolve().parents[2] / "deploy/models/silero_vad_stateful/1/silero_vad_stateful.xml"


@pytest.fixture
def compiled(runtime: Runtime) -> Any:
    return runtime.core.compile_model(SILERO, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})


def chunks(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((count, 1, 576)).astype(np.float32)


def voice(request: Any, chunk: Any) -> float:
    return float(request.infer([chunk])[0][0, 0])


def test_every_inference_goes_on_where_the_one_before_stopped(compiled: Any) -> None:
    request, other = compiled.create_infer_request(), compiled.create_infer_request()
    one, two = chunks(1)[0], chunks(1, seed=1)[0]
    first = voice(request, one)
    second = voice(request, two)
    assert voice(other, two) != pytest.approx(second, abs=1e-7)
    request.reset_state()
    assert voice(request, one) == pytest.approx(first, abs=1e-7)
    assert voice(request, two) == pytest.approx(second, abs=1e-7)


def test_states_are_named_and_begin_with_zeros(compiled: Any) -> None:
    (state,) = compiled.create_infer_request().query_state()
    assert (state.name, repr(state)) == ("statestateN", "<VariableState>")
    assert list(state.state.shape) == [2, 1, 128]
    assert state.state.element_type.get_type_name() == "f32"
    assert not state.state.data.any()


def facts(sink: Any) -> tuple[object, ...]:
    output, sizes = sink.output(0), (sink.get_input_size(), sink.get_output_size())
    return sink.friendly_name, sink.get_type_name(), sizes, str(output.partial_shape), output.element_type.type_name


def test_a_model_that_is_read_tells_what_writes_its_states(runtime: Runtime) -> None:
    local: Any = openvino.Core().read_model(runtime.models["many_states"])
    model = runtime.core.read_model(runtime.models["many_states"])
    assert [facts(sink) for sink in model.get_sinks()] == [facts(sink) for sink in local.get_sinks()]
    assert len(model.sinks) == len(STATES)
    assert [model.get_sink_index(sink) for sink in model.sinks] == list(range(len(STATES)))
    assert model.get_sink_index(model.parameters[0]) == -1
    with pytest.raises(TypeError, match="Sink node is expected as argument"):
        model.get_sink_index(0)
    assert runtime.core.read_model(runtime.models["relu"]).get_sinks() == []
    assert runtime.core.compile_model(model, "CPU").get_runtime_model().get_sinks() == []


def test_what_writes_states_is_among_the_nodes(runtime: Runtime) -> None:
    model = runtime.core.read_model(runtime.models["many_states"])
    writing = [node for node in model.get_ordered_ops() if node.get_type_name() == "Assign"]
    assert sorted(map(model.get_sink_index, writing)) == list(range(len(STATES)))


def test_what_writes_states_follows_new_shapes(runtime: Runtime) -> None:
    model = runtime.core.read_model(runtime.models["many_states"])
    held = model.sinks
    model.reshape([2])
    assert model.sinks == held
    assert {str(sink.output(0).partial_shape) for sink in held} == {"[2]"}
    assert [facts(sink) for sink in model.clone().sinks] == [facts(sink) for sink in held]


def test_states_come_in_openvino_s_order_with_their_own_values(runtime: Runtime) -> None:
    local: Any = openvino.Core().compile_model(runtime.models["many_states"], "CPU")
    expected = [state.name for state in local.create_infer_request().query_state()]
    for _ in range(5):  # OpenVINO gives the states of a file in another order each time it reads it
        request = runtime.compile("many_states").create_infer_request()
        request.infer([np.ones(1, np.float32)])
        states = request.query_state()
        assert [state.name for state in states] == expected
        assert {state.name: state.state.data[0] for state in states} == dict(zip(STATES, range(1, 7), strict=True))


def test_states_that_are_read_after_each_inference_are_what_it_left(runtime: Runtime) -> None:
    request = runtime.compile("many_states").create_infer_request()
    for times in range(1, 4):
        request.infer([np.ones(1, np.float32)])
        found = {state.name: state.state.data[0] for state in request.query_state()}
        assert found == {name: factor * times for factor, name in enumerate(STATES, 1)}
    request.reset_state()
    assert not any(state.state.data[0] for state in request.query_state())


def test_a_state_moves_to_another_request(compiled: Any) -> None:
    request, other = compiled.create_infer_request(), compiled.create_infer_request()
    voice(request, chunks(1)[0])
    (mine,), (yours,) = request.query_state(), other.query_state()
    yours.state = mine.state
    np.testing.assert_array_equal(yours.state.data, mine.state.data)
    assert voice(request, chunks(1)[0]) == pytest.approx(voice(other, chunks(1)[0]), abs=1e-7)


def test_a_state_that_is_held_does_not_follow_and_a_reset_one_is_zero(compiled: Any) -> None:
    request = compiled.create_infer_request()
    voice(request, chunks(1)[0])
    (state,) = request.query_state()
    held = state.state.data.copy()
    assert held.any()
    state.reset()
    assert not state.state.data.any()


def test_a_tensor_that_does_not_fit_is_refused(runtime: Runtime, compiled: Any) -> None:
    (state,) = compiled.create_infer_request().query_state()
    with pytest.raises(RuntimeError, match="is incompatible with provided dimensions"):
        state.state = runtime.ov.Tensor(np.zeros((3, 1, 128), np.float32))
    with pytest.raises(TypeError, match="incompatible function arguments"):
        state.state = np.zeros((2, 1, 128), np.float32)


def test_a_state_outlives_the_variable_of_its_request(compiled: Any) -> None:
    request = compiled.create_infer_request()
    voice(request, chunks(1)[0])
    (state,) = request.query_state()
    del request
    assert state.state.data.any()


def test_the_compiled_model_s_states_are_those_of_its_calls(compiled: Any) -> None:
    first = float(compiled([chunks(1)[0]])[0][0, 0])
    compiled([chunks(1)[0]])
    (state,) = compiled.query_state()
    assert state.state.data.any()
    compiled.reset_state()
    assert float(compiled([chunks(1)[0]])[0][0, 0]) == pytest.approx(first, abs=1e-7)


def test_every_request_of_a_queue_has_its_own_states(runtime: Runtime, compiled: Any) -> None:
    queue = runtime.ov.AsyncInferQueue(compiled, 2)
    for _ in range(4):
        queue.start_async([chunks(1)[0]])
    queue.wait_all()
    counts = {voice(request, chunks(1, seed=2)[0]) for request in queue}
    assert len(counts) >= 1
    for request in queue:
        request.reset_state()
    again = [voice(request, chunks(1)[0]) for request in queue]
    assert again[0] == pytest.approx(again[1], abs=1e-7)
