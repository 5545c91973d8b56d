"""The real runtime: every type in and out, devices, properties, formats, failures and cancels."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as ops
import pytest

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME, ELEMENT_TYPES, ElementType
from inferwire_proto.errors import Code
from inferwire_proto.properties import EnumValue
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.specs import Dimension
from inferwire_server.core.states import ReadStates, WriteStates
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend, OpenVinoModel
from inferwire_server.openvino_backend.specs import texts
from inferwire_server.openvino_backend.tensors import from_runtime, to_runtime

DATA = Path(__file__).parent.parent / "data"
NOT_ON_CPU = {"u1", "u3", "u6"}
CPU_TYPES = [row for row in ELEMENT_TYPES if row.name not in NOT_ON_CPU]
FIXED_TYPES = [row for row in CPU_TYPES if not row.is_string]
MAKE_MODEL: Any = ov.Model
"""Its type does not fit its own constructor's overloads."""
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


@pytest.fixture(scope="module")
def backend() -> OpenVinoBackend:
    return OpenVinoBackend()


def parameter(element_type: ElementType, shape: Sequence[int], name: str = "x") -> Any:
    node: Any = ops.parameter(ov.PartialShape(list(shape)), getattr(ov.Type, element_type.name), name=name)
    node.output(0).set_names({name})
    return node


def saved(folder: Path, outputs: Sequence[tuple[str, Any]], inputs: Sequence[Any]) -> Source:
    """Write a model as IR."""
    results: list[Any] = []
    for name, node in outputs:
        result: Any = ops.result(node)
        if name:
            result.output(0).set_names({name})
        results.append(result)
    path = folder / "model.xml"
    ov.save_model(MAKE_MODEL(results, list(inputs), "model"), path, compress_to_fp16=False)
    return Source(path)


def identity(folder: Path, element_type: ElementType, shape: Sequence[int] = (-1,)) -> Source:
    x = parameter(element_type, shape)
    return saved(folder, [("y", x)], [x])


def squares(folder: Path) -> Source:
    """A model that multiplies two matrices, whose sizes have to fit."""
    a, b = parameter(BY_NAME["f32"], (-1, -1), "a"), parameter(BY_NAME["f32"], (-1, -1), "b")
    return saved(folder, [("y", ops.matmul(a, b, False, False))], [a, b])


def f32(values: Any) -> Tensor:
    array = np.asarray(values, np.float32)
    return Tensor(BY_NAME["f32"], array.shape, array.tobytes())


def copied(tensor: Tensor) -> Tensor:
    return tensor._replace(data=bytes(tensor.data))


def compiled(backend: OpenVinoBackend, source: Source, device: str = "CPU") -> OpenVinoModel:
    return backend.compile(source, ModelOptions("m", device, EXACT))


def some_bytes(element_type: ElementType, shape: tuple[int, ...]) -> bytes:
    """Make bytes that are all unlike, as far as every pattern is a value of the type."""
    size = element_type.byte_size(shape)
    if element_type.name == "boolean":
        return bytes(index % 2 for index in range(size))
    return bytes(index * 7 % 251 for index in range(size))


# --- types


@pytest.mark.parametrize("element_type", FIXED_TYPES, ids=lambda row: row.name)
@pytest.mark.parametrize("shape", [(8,), (5,), (0,)], ids=str)
def test_every_type_the_cpu_takes_comes_back_as_it_went(
    backend: OpenVinoBackend, tmp_path: Path, element_type: ElementType, shape: tuple[int, ...]
) -> None:
    model = compiled(backend, identity(tmp_path, element_type))
    assert model.spec.inputs[0].element_type is model.spec.outputs[0].element_type is element_type
    data = some_bytes(element_type, shape)
    slot = model.create_slot()
    (answer,) = slot.run([Tensor(element_type, shape, data)], [0])
    assert (answer.element_type, answer.shape) == (element_type, shape)
    if prod(shape) % element_type.unit_elements == 0:
        assert bytes(answer.data) == data
        assert slot.run([Tensor(element_type, shape, data)], [0], (copied,)) == (answer,)
    else:
        # The elements past the last one are nobody's.
        whole_bytes = prod(shape) * element_type.bits // 8
        assert bytes(answer.data)[:whole_bytes] == data[:whole_bytes]


@pytest.mark.parametrize("name", sorted(NOT_ON_CPU))
def test_a_type_the_cpu_does_not_take_fails_with_its_reason(
    backend: OpenVinoBackend, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ServingError, match=f"format {name} is not supported") as caught:
        compiled(backend, identity(tmp_path, BY_NAME[name]))
    assert caught.value.code is Code.MODEL_FAILED


@pytest.mark.parametrize("values", [[b"a"], [b"", b"two", b""], [b"in\0side", "Ärger".encode(), b"\xff"], []])
def test_strings_come_back_as_they_went(backend: OpenVinoBackend, tmp_path: Path, values: list[bytes]) -> None:
    slot = compiled(backend, identity(tmp_path, BY_NAME["string"])).create_slot()
    sent = Tensor(BY_NAME["string"], (len(values),), memoryview(strings.pack(values)))
    expected = Tensor(BY_NAME["string"], (len(values),), strings.pack(values))
    assert slot.run([sent], [0]) == slot.run([sent], [0], (copied,)) == (expected,)


@pytest.mark.parametrize("name", ["f32", "u4"])
def test_no_tensor_is_made_of_memory_that_nobody_has_written_to(name: str) -> None:
    with pytest.raises(AssertionError, match="nobody has written to; this is a bug"):
        to_runtime(Tensor(BY_NAME[name], (4,), b""))
    assert to_runtime(Tensor(BY_NAME[name], (4, 0), b"")).size == 0


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0), (2, 3), (64,), (65,), (3, 70, 5), (2, 1, 100), (200, 2)])
def test_strings_of_any_shape_are_read_in_their_order(shape: tuple[int, ...]) -> None:
    sent = Tensor(BY_NAME["string"], shape, strings.pack(b"%d" % at for at in range(prod(shape))))
    assert from_runtime(to_runtime(sent), sent.element_type) == sent


@pytest.mark.parametrize("values", [[b""], [b""] * 5, [b""] * 64 + [b"x"], [b"", b"y"] * 100, [b""] * 130])
def test_empty_strings_are_read_as_such_whatever_was_in_their_memory(values: list[bytes]) -> None:
    sent = Tensor(BY_NAME["string"], (len(values),), strings.pack(values))
    for _ in range(100):
        for size in (1, 5, 64, 66):
            np.full(size, b"Z")  # which is left in memory that is used again
        assert from_runtime(to_runtime(sent), sent.element_type) == sent


def test_one_long_string_among_short_ones_does_not_make_all_as_long() -> None:
    values = [b"a" * 7] * 2000 + [b"b" * (1 << 20)] + [b"c"] * 2000
    sent = Tensor(BY_NAME["string"], (len(values),), strings.pack(values))
    tracemalloc.start()
    filled = to_runtime(sent)
    _, most = tracemalloc.get_traced_memory()
    assert from_runtime(filled, sent.element_type) == sent
    _, most_read = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20
    assert most_read < 128 << 20


def test_strings_that_are_not_there_take_no_memory() -> None:
    # As many would take more than any machine has.
    with pytest.raises(ServingError, match="string 0 of 1099511627776 has 0 bytes of its length"):
        to_runtime(Tensor(BY_NAME["string"], (2**40,), b""))


def test_strings_that_only_the_slot_looks_at_are_the_callers_mistake_where_they_are_none(
    backend: OpenVinoBackend, tmp_path: Path
) -> None:
    model = compiled(backend, identity(tmp_path, BY_NAME["string"]))
    slot, name = model.create_slot(), model.spec.inputs[0].oip_name
    with pytest.raises(
        ServingError, match=f"input '{name}' of model '.*' is no string.2.: string 1 of 2 has"
    ) as caught:
        slot.run([Tensor(BY_NAME["string"], (2,), strings.pack([b"one"]))], [0])
    assert caught.value.code is Code.INVALID_INPUT
    whole = Tensor(BY_NAME["string"], (1,), strings.pack([b"one"]))
    assert slot.run([whole], [0]) == (whole,)


@pytest.mark.parametrize("name", ["f32", "string"])
def test_a_scalar_comes_back_as_one(backend: OpenVinoBackend, tmp_path: Path, name: str) -> None:
    slot = compiled(backend, identity(tmp_path, BY_NAME[name], ())).create_slot()
    sent = Tensor(BY_NAME[name], (), strings.pack([b"one"]) if name == "string" else b"\0\0\x80?")
    assert slot.run([sent], [0]) == (sent,)


@pytest.mark.parametrize("offset", range(4))
def test_bytes_are_read_wherever_they_lie(backend: OpenVinoBackend, tmp_path: Path, offset: int) -> None:
    slot = compiled(backend, identity(tmp_path, BY_NAME["f64"])).create_slot()
    data = np.arange(3, dtype=np.float64).tobytes()
    view = memoryview(bytes(offset) + data + b"tail")[offset : offset + len(data)]
    (answer,) = slot.run([Tensor(BY_NAME["f64"], (3,), view)], [0])
    assert answer.data == data


def test_a_dynamic_model_takes_one_shape_after_the_other(backend: OpenVinoBackend, tmp_path: Path) -> None:
    model = compiled(backend, identity(tmp_path, BY_NAME["f32"], (-1, 2)))
    assert model.spec.inputs[0].shape == (Dimension(0, None), Dimension(2, 2))
    slot = model.create_slot()
    for rows in (3, 1, 0, 5):
        sent = f32(np.arange(rows * 2).reshape(rows, 2))
        assert slot.run([sent], [0]) == (sent,)


def test_a_port_of_no_known_rank_has_no_shape(backend: OpenVinoBackend, tmp_path: Path) -> None:
    x: Any = ops.parameter(ov.PartialShape.dynamic(), ov.Type.f32, name="x")
    assert backend.read(saved(tmp_path, [("y", x)], [x])).inputs[0].shape is None


def test_an_answer_is_a_copy_that_the_next_run_leaves_alone(backend: OpenVinoBackend, tmp_path: Path) -> None:
    slot = compiled(backend, identity(tmp_path, BY_NAME["f32"])).create_slot()
    first = slot.run([f32([1, 2])], [0])
    slot.run([f32([3, 4])], [0])
    assert first == (f32([1, 2]),)


def test_a_finish_sees_an_output_where_it_lies(backend: OpenVinoBackend, tmp_path: Path) -> None:
    x = parameter(BY_NAME["f32"], (2,))
    one: Any = ops.add(x, ops.constant(np.float32(1)))
    slot = compiled(backend, saved(tmp_path, [("same", x), ("more", one)], [x])).create_slot()
    seen: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        seen.append(tensor)
        return f32([7])

    assert slot.run([f32([1, 2])], [0, 1], (None, note)) == (f32([1, 2]), f32([7]))
    assert seen == [f32([2, 3])]
    slot.run([f32([5, 6])], [1])
    assert seen == [f32([6, 7])]


def test_what_a_finish_raises_is_its_own_and_the_slot_runs_on(backend: OpenVinoBackend, tmp_path: Path) -> None:
    def refuse(_: Tensor) -> Tensor:
        raise ServingError(Code.TOO_LARGE, "refused by the test")

    slot = compiled(backend, identity(tmp_path, BY_NAME["f32"])).create_slot()
    with pytest.raises(ServingError, match="refused by the test") as caught:
        slot.run([f32([1])], [0], (refuse,))
    assert caught.value.code is Code.TOO_LARGE
    assert slot.run([f32([2])], [0]) == (f32([2]),)


# --- outputs and names


def test_outputs_come_in_the_order_asked_for(backend: OpenVinoBackend, tmp_path: Path) -> None:
    x = parameter(BY_NAME["f32"], (-1,))
    two: Any = ops.add(x, ops.constant(np.float32(1)))
    slot = compiled(backend, saved(tmp_path, [("same", x), ("more", two)], [x])).create_slot()
    assert slot.run([f32([1])], [1, 0]) == (f32([2]), f32([1]))
    assert slot.run([f32([1])], [1]) == (f32([2]),)


def test_ports_that_share_their_name_are_named_by_position(backend: OpenVinoBackend, tmp_path: Path) -> None:
    x = parameter(BY_NAME["f32"], (1,), "output_2")
    more: Any = ops.add(x, ops.constant(np.float32(1)))
    more.output(0).set_names({"more"})
    source = saved(tmp_path, [("", x), ("", more), ("", more)], [x])
    for spec in (backend.read(source), compiled(backend, source).spec):
        assert [port.oip_name for port in spec.outputs] == ["output_2", "output_1", "output_2_"]
        assert [port.oip_name for port in spec.inputs] == ["output_2"]


# --- failures and cancels


def test_a_failed_inference_says_why_and_the_slot_runs_again(backend: OpenVinoBackend, tmp_path: Path) -> None:
    slot = compiled(backend, squares(tmp_path)).create_slot()
    with pytest.raises(ServingError, match="MatMul") as caught:
        slot.run([f32(np.ones((2, 3))), f32(np.ones((2, 3)))], [0])
    assert caught.value.code is Code.INFERENCE_FAILED
    assert slot.run([f32([[2]]), f32([[3]])], [0]) == (f32([[6]]),)


def long_running(folder: Path) -> Source:
    """A model of many steps; an inference is cancelled between two of them."""
    x = parameter(BY_NAME["f32"], (-1, -1))
    node: Any = x
    for _ in range(500):
        node = ops.tanh(ops.matmul(node, node, False, False))
    return saved(folder, [("y", node)], [x])


def test_a_running_inference_is_cancelled_and_its_slot_runs_again(backend: OpenVinoBackend, tmp_path: Path) -> None:
    slot = compiled(backend, long_running(tmp_path)).create_slot()
    with ThreadPoolExecutor() as threads:
        running = threads.submit(slot.run, [f32(np.ones((512, 512)))], [0])
        # A cancel before the start does not stick, so it is repeated until the inference has ended.
        while not running.done():
            slot.cancel()
        with pytest.raises(ServingError) as caught:
            running.result()
    assert (caught.value.code, caught.value.message) == (Code.CANCELLED, "the inference was cancelled")
    assert slot.run([f32(np.zeros((1, 1)))], [0]) == (f32([[0]]),)


def test_a_cancel_of_an_idle_slot_does_not_stick(backend: OpenVinoBackend, tmp_path: Path) -> None:
    slot = compiled(backend, identity(tmp_path, BY_NAME["f32"])).create_slot()
    slot.cancel()
    assert slot.run([f32([1])], [0]) == (f32([1]),)


@pytest.mark.parametrize("content", ["", "no model", '<?xml version="1.0"?><net name="m" version="99"/>'])
def test_a_file_that_is_no_model_fails_with_a_reason(backend: OpenVinoBackend, tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken.xml"
    path.write_text(content)
    for call in (backend.read, lambda source: backend.compile(source, ModelOptions("m", "CPU"))):  # pyright: ignore
        with pytest.raises(ServingError) as caught:
            call(Source(path))
        assert caught.value.code is Code.MODEL_FAILED
        assert caught.value.message


def test_a_port_of_no_known_type_fails_with_a_sentence(backend: OpenVinoBackend, tmp_path: Path) -> None:
    x: Any = ops.parameter(ov.PartialShape([1]), ov.Type.dynamic, name="x")
    with pytest.raises(ServingError, match="input 0 has element type dynamic, expected a known one") as caught:
        backend.read(saved(tmp_path, [("y", x)], [x]))
    assert caught.value.code is Code.MODEL_FAILED


# --- devices and properties


@pytest.mark.parametrize("device", ["CPU", "AUTO", "AUTO:CPU", "HETERO:CPU", "MULTI:CPU", "BATCH:CPU(4)"])
def test_every_device_string_queues_on_the_cpu(backend: OpenVinoBackend, tmp_path: Path, device: str) -> None:
    model = compiled(backend, identity(tmp_path, BY_NAME["f32"], (4, 2)), device)
    assert model.devices == ("CPU",)
    assert model.optimal_slots >= 1
    sent = f32(np.arange(8).reshape(4, 2))
    assert model.create_slot().run([sent], [0]) == (sent,)


def test_a_device_nobody_has_fails_with_a_reason(backend: OpenVinoBackend, tmp_path: Path) -> None:
    with pytest.raises(ServingError, match="TPU") as caught:
        compiled(backend, identity(tmp_path, BY_NAME["f32"]), "TPU")
    assert caught.value.code is Code.MODEL_FAILED


def test_properties_keep_their_types(backend: OpenVinoBackend, tmp_path: Path) -> None:
    properties = compiled(backend, identity(tmp_path, BY_NAME["f32"])).properties
    assert properties["PERFORMANCE_HINT"] == "THROUGHPUT"
    assert properties["EXECUTION_MODE_HINT"] == EnumValue("hint.ExecutionMode", "PERFORMANCE")
    assert properties["INFERENCE_PRECISION_HINT"] is BY_NAME["f32"]
    assert properties["EXECUTION_DEVICES"] == ["CPU"]
    assert isinstance(properties["OPTIMAL_NUMBER_OF_INFER_REQUESTS"], int)
    assert isinstance(properties["ENABLE_CPU_PINNING"], bool)


@pytest.mark.parametrize(
    ("properties", "hint"),
    [({}, "THROUGHPUT"), ({"PERFORMANCE_HINT": EnumValue("hint.PerformanceMode", "LATENCY")}, "LATENCY")],
)
def test_models_compile_for_throughput_unless_told_otherwise(
    backend: OpenVinoBackend, tmp_path: Path, properties: dict[str, Any], hint: str
) -> None:
    model = backend.compile(identity(tmp_path, BY_NAME["f32"]), ModelOptions("m", "CPU", properties))
    assert model.properties["PERFORMANCE_HINT"] == hint


def test_a_device_tells_its_properties_and_versions(backend: OpenVinoBackend) -> None:
    assert "CPU" in backend.devices()
    assert isinstance(backend.device_property("CPU", "FULL_DEVICE_NAME"), str)
    streams = backend.device_property("CPU", "RANGE_FOR_STREAMS")
    assert isinstance(streams, tuple)
    assert backend.version == ov.get_version()
    assert list(backend.versions("CPU")) == ["CPU"]
    with pytest.raises(ServingError, match="NO_SUCH") as caught:
        backend.device_property("CPU", "NO_SUCH")
    assert caught.value.code is Code.INVALID_INPUT


# --- formats


def test_an_onnx_file_is_read(backend: OpenVinoBackend) -> None:
    model = compiled(backend, Source(DATA / "sigmoid.onnx"))
    assert [(port.oip_name, port.shape_text) for port in model.spec.inputs] == [("x", "[3,4,5]")]
    (answer,) = model.create_slot().run([f32(np.zeros((3, 4, 5)))], [0])
    assert answer == f32(np.full((3, 4, 5), 0.5))


def test_a_model_is_reshaped_as_it_is_read(backend: OpenVinoBackend, tmp_path: Path) -> None:
    x = parameter(BY_NAME["f32"], (-1, 2))
    source = saved(tmp_path, [("y", ops.relu(x))], [x])
    reshaped = Source(source.path, reshape={"x": (Dimension(1, 4), Dimension(2, 2))})
    assert backend.read(reshaped).inputs[0].shape_text == "[1..4,2]"
    assert backend.read(Source(source.path, reshape={"x": None})).inputs[0].shape is None
    nameless = Source(source.path, reshape={"": (Dimension(3, 3), Dimension(2, 2))})
    assert backend.read(nameless).inputs[0].shape_text == "[3,2]"


def test_the_batch_is_set_where_the_layout_says_it_is_else_first(backend: OpenVinoBackend, tmp_path: Path) -> None:
    first, second = parameter(BY_NAME["f32"], (5, 2), "first"), parameter(BY_NAME["f32"], (2, 5), "second")
    second.set_layout(ov.Layout("CN"))
    source = saved(tmp_path, [("y", ops.relu(first)), ("z", ops.relu(second))], [first, second])
    shapes = [port.shape_text for port in backend.read(replace(source, batch=Dimension(1, 8))).inputs]
    assert shapes == ["[1..8,2]", "[2,1..8]"]
    assert backend.read(replace(source, batch=Dimension(0, None))).inputs[0].shape_text == "[?,2]"


def test_inputs_that_take_any_length_keep_their_rank(backend: OpenVinoBackend, tmp_path: Path) -> None:
    first, second = parameter(BY_NAME["f32"], (5, 2), "first"), parameter(BY_NAME["f32"], (3,), "second")
    source = saved(tmp_path, [("y", ops.relu(first)), ("z", ops.relu(second))], [first, second])
    shapes = [
        [port.shape_text for port in backend.read(replace(source, free=frozenset(free))).inputs]
        for free in (("first",), ("",), ())
    ]
    assert shapes == [["[?,?]", "[3]"], ["[?,?]", "[?]"], ["[5,2]", "[3]"]]
    with pytest.raises(ServingError, match="there is no input 'third', expected one of first, second"):
        backend.read(replace(source, free=frozenset({"third"})))


def test_a_batch_of_what_has_none_is_refused(backend: OpenVinoBackend, tmp_path: Path) -> None:
    x = parameter(BY_NAME["f32"], ())
    source = saved(tmp_path, [("y", ops.relu(x))], [x])
    with pytest.raises(ServingError, match=r"input 'x' has shape \[\]: no batch can be set"):
        backend.read(replace(source, batch=Dimension(2, 2)))
    with pytest.raises(ServingError, match=r"input 'x' has shape \[\.\.\.\]: no batch can be set"):
        backend.read(replace(source, reshape={"x": None}, batch=Dimension(2, 2)))


_IR_V10 = """<?xml version="1.0"?>
<net name="old" version="10"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data element_type="i64" shape="2"/>
<output><port id="0" precision="I64"><dim>2</dim></port></output></layer>
<layer id="1" name="y" type="Result" version="opset1">
<input><port id="0"><dim>2</dim></port></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>
"""


def test_an_old_ir_keeps_its_input_type_and_gives_i32(backend: OpenVinoBackend, tmp_path: Path) -> None:
    path = tmp_path / "old.xml"
    path.write_text(_IR_V10)
    model = compiled(backend, Source(path))
    assert (model.spec.inputs[0].element_type.name, model.spec.outputs[0].element_type.name) == ("i64", "i32")
    sent = Tensor(BY_NAME["i64"], (2,), np.array([3, -4], np.int64).tobytes())
    (answer,) = model.create_slot().run([sent], [0])
    assert answer == Tensor(BY_NAME["i32"], (2,), np.array([3, -4], np.int32).tobytes())


def test_a_compiled_model_s_files_may_be_overwritten(tmp_path: Path, backend: OpenVinoBackend) -> None:
    x = parameter(BY_NAME["f32"], [1, 64])
    table = ops.constant(np.random.default_rng(0).random((64, 4096), dtype=np.float32))
    source = saved(tmp_path, [("y", ops.matmul(x, table, False, False))], [x])
    model = compiled(backend, source)
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    source.path.with_suffix(".bin").write_bytes(b"")
    row = Tensor(BY_NAME["f32"], (1, 64), bytes(256))
    assert model.create_slot().run([row], [0]) == (Tensor(BY_NAME["f32"], (1, 4096), bytes(4 * 4096)),)


def test_names_that_compiling_invents_leave_the_signature_alone(tmp_path: Path, backend: OpenVinoBackend) -> None:
    (path,) = (Path(__file__).resolve().parents[2] / "deploy/models/silero_vad_stateful/1").glob("*.xml")
    options = ModelOptions("m", "CPU", {"CACHE_DIR": str(tmp_path)})
    first, cached = (backend.compile(Source(path), options).spec for _ in range(2))
    assert first.outputs[0].names > cached.outputs[0].names
    assert first.signature == cached.signature


@pytest.mark.parametrize("device", ["CPU", "AUTO"])
def test_a_cached_model_is_the_same_and_one_with_other_weights_another(
    tmp_path: Path, backend: OpenVinoBackend, device: str
) -> None:
    options = ModelOptions("m", device, EXACT | {"CACHE_DIR": str(tmp_path / "cache")})

    def outputs(addend: float) -> tuple[int, tuple[Tensor, ...]]:
        x = parameter(BY_NAME["f32"], (1, 4))
        table = ops.constant(np.full((1, 4), addend, np.float32))
        model = backend.compile(saved(tmp_path, [("y", ops.add(x, table))], [x]), options)
        return model.spec.signature, model.create_slot().run([f32([[0, 0, 0, 0]])], [0])

    first, again, other = outputs(1), outputs(1), outputs(2)
    assert list((tmp_path / "cache").glob("*.blob"))
    assert first == again
    assert other == (first[0], (f32([[2, 2, 2, 2]]),))


def test_a_library_that_is_none_is_named_with_the_reason(tmp_path: Path) -> None:
    library = tmp_path / "liboperations.so"
    library.write_text("no library")
    with pytest.raises(ServingError) as caught:
        OpenVinoBackend([library])
    reason = f'Cannot load library "{library}": {library}: file too short'
    assert caught.value.message == f"--extension '{library}' cannot be loaded: {reason}"
    assert OpenVinoBackend().extensions == ()


def test_a_model_with_states_comes_back_from_its_blob_with_them(backend: OpenVinoBackend, tmp_path: Path) -> None:
    path = Path(__file__).parents[2] / "deploy/models/silero_vad_stateful/1/silero_vad_stateful.xml"
    options = ModelOptions("vad", "CPU", EXACT)
    original = backend.compile(Source(path), options)
    blob = tmp_path / "model.blob"
    blob.write_bytes(original.export())
    imported = backend.compile(Source(blob, is_compiled=True), options)
    assert imported.spec.states == original.spec.states
    assert imported.spec.name == "vad"
    assert imported.spec.inputs == original.spec.inputs
    assert imported.spec.outputs[0].oip_name == original.spec.outputs[0].oip_name
    row = f32(np.linspace(-1, 1, 576).reshape(1, 576))
    assert imported.create_slot().run([row], [0]) == original.create_slot().run([row], [0])


STATES = ("left", "right", "up", "down", "near", "far")


def with_states(folder: Path) -> Source:
    """A model of six states that keep what they are given."""
    x, zero = parameter(BY_NAME["f32"], (1,)), ops.constant(np.zeros(1, np.float32))
    sinks = [ops.assign(ops.add(ops.read_value(zero, name), x), name) for name in STATES]
    path = folder / "model.xml"
    ov.save_model(MAKE_MODEL([ops.result(x)], sinks, [x], "model"), path)
    return Source(path)


def test_states_have_one_order_however_often_a_file_is_compiled(backend: OpenVinoBackend, tmp_path: Path) -> None:
    source = with_states(tmp_path)
    orders = {backend.compile(source, ModelOptions("m", "CPU")).spec.states for _ in range(8)}
    assert [sorted(order) for order in orders] == [sorted(STATES)]


def test_states_of_a_model_that_is_read_are_sorted(backend: OpenVinoBackend, tmp_path: Path) -> None:
    source = with_states(tmp_path)
    assert {backend.read(source).states for _ in range(8)} == {tuple(sorted(STATES))}


def test_all_states_are_read_in_the_order_of_their_names(backend: OpenVinoBackend, tmp_path: Path) -> None:
    source = with_states(tmp_path)
    values = {name: f32([index]) for index, name in enumerate(STATES)}
    for _ in range(8):
        model = backend.compile(source, ModelOptions("m", "CPU"))
        slot = model.create_slot(keeps_states=True)
        slot.access(WriteStates(tuple(values.items())))
        assert slot.access(ReadStates()) == tuple(values[name] for name in model.spec.states)


def test_what_a_file_says_of_its_model_is_read_as_texts(tmp_path: Path, backend: OpenVinoBackend) -> None:
    source = identity(tmp_path, BY_NAME["f32"])
    model: Any = ov.Core().read_model(source.path)
    for value, name in (("ssd", "model_type"), ([1.5, 2.0], "mean"), (True, "is_nhwc"), ("a b", "labels")):
        model.set_rt_info(value, ["model_info", name])
    ov.save_model(model, tmp_path / "said.xml")
    spec = backend.compile(Source(tmp_path / "said.xml"), ModelOptions("m", "CPU")).spec
    assert spec.rt_info["model_info"] == {"model_type": "ssd", "mean": "1.5 2", "is_nhwc": "YES", "labels": "a b"}
    assert spec.rt_info["version"] == "11"
    assert str(tmp_path) not in str(spec.rt_info)


@pytest.mark.parametrize(("value", "text"), [(True, "YES"), (False, "NO"), ([1.5, 2.0], "1.5 2.0"), (7, "7")])
def test_what_a_model_says_is_written_as_in_a_file(
    tmp_path: Path, backend: OpenVinoBackend, value: Any, text: str
) -> None:
    model: Any = ov.Core().read_model(identity(tmp_path, BY_NAME["f32"]).path)
    model.set_rt_info(value, "said")
    assert texts(model.get_rt_info())["said"] == text
