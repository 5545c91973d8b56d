"""The real runtime: every type in and out, outputs, failures and cancels."""

from __future__ import annotations

import asyncio
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as ops
import pytest
from tests.openvino_backend.small_models import NOT_ON_CPU, compiled, f32, identity, parameter, saved

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME, ELEMENT_TYPES, ElementType
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.specs import Dimension
from inferwire_server.core.tensors import LARGE, Tensor
from inferwire_server.engine.engine import Engine, QueueOptions, Submission
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend, OpenVinoModel
from inferwire_server.openvino_backend.tensors import from_runtime, to_runtime
from inferwire_server.tallies import Tallies

CPU_TYPES = [row for row in ELEMENT_TYPES if row.name not in NOT_ON_CPU]
FIXED_TYPES = [row for row in CPU_TYPES if not row.is_string]


def squares(folder: Path) -> Source:
    """A model that multiplies two matrices, whose sizes have to fit."""
    a, b = parameter(BY_NAME["f32"], (-1, -1), "a"), parameter(BY_NAME["f32"], (-1, -1), "b")
    return saved(folder, [("y", ops.matmul(a, b, False, False))], [a, b])


def copied(tensor: Tensor) -> Tensor:
    return tensor._replace(data=bytes(tensor.data))


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


async def test_booleans_of_a_large_tensor_are_checked_on_the_slot_s_thread(
    backend: OpenVinoBackend, tmp_path: Path
) -> None:
    boolean, count = BY_NAME["boolean"], LARGE + 1
    source = identity(tmp_path, boolean)
    async with Engine(backend, QueueOptions(), Tallies().of) as engine:
        model = await engine.load(source, ModelOptions("m"))
        wrong = f"{model.spec.prefix_of(0)} has a boolean that is neither 0 nor 1"
        for last, sentence in ((b"\1", None), (b"\2", wrong)):
            inputs = model.spec.arrange([(0, Tensor(boolean, (count,), bytes(count - 1) + last))])
            end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
            engine.submit(model, Submission(Work(inputs, (0,))), end.set_result)
            job = await end
            if sentence is None:
                assert job.result() == inputs
            else:
                assert job.error is not None
                assert (job.error.code, job.error.message, job.outcome) == (Code.INVALID_INPUT, sentence, "invalid")


@pytest.mark.parametrize("end", [b"\0", b"two\0", b"in\0side\0\0"])
def test_a_string_that_openvino_would_cut_is_refused(backend: OpenVinoBackend, tmp_path: Path, end: bytes) -> None:
    model = compiled(backend, identity(tmp_path, BY_NAME["string"]))
    slot, name = model.create_slot(), model.spec.inputs[0].oip_name
    cut = Tensor(BY_NAME["string"], (3,), strings.pack([b"", end, b"three"]))
    with pytest.raises(ServingError, match=f"input '{name}' of model 'm': string 1 ends in a NUL byte") as caught:
        slot.run([cut], [0])
    assert caught.value.code is Code.INVALID_INPUT
    whole = Tensor(BY_NAME["string"], (1,), strings.pack([b"one"]))
    assert slot.run([whole], [0]) == (whole,)


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


LONG = 256


def long_running(folder: Path) -> Source:
    """A model of many steps; an inference is cancelled between two of them."""
    x = parameter(BY_NAME["f32"], (LONG, LONG))
    node: Any = x
    for _ in range(500):
        node = ops.tanh(ops.matmul(node, node, False, False))
    return saved(folder, [("y", node)], [x])


@pytest.mark.parametrize("device", ["CPU", "AUTO"])
def test_a_running_inference_is_cancelled_and_its_slot_runs_again(
    backend: OpenVinoBackend, tmp_path: Path, device: str
) -> None:
    source = replace(long_running(tmp_path), by_settings=True)
    slot = backend.compile(source, ModelOptions("m", device)).create_slot()
    with ThreadPoolExecutor() as threads:
        running = threads.submit(slot.run, [f32(np.ones((LONG, LONG)))], [0])
        # A cancel before the start does not stick, so it is repeated until the inference has ended.
        while not running.done():
            slot.cancel()
        with pytest.raises(ServingError) as caught:
            running.result()
    assert (caught.value.code, caught.value.message) == (Code.CANCELLED, "the inference was cancelled")
    assert slot.run([f32(np.zeros((LONG, LONG)))], [0]) == (f32(np.zeros((LONG, LONG))),)


def test_a_cancel_of_an_idle_slot_does_not_stick(backend: OpenVinoBackend, tmp_path: Path) -> None:
    slot = compiled(backend, identity(tmp_path, BY_NAME["f32"])).create_slot()
    slot.cancel()
    assert slot.run([f32([1])], [0]) == (f32([1]),)


# --- exports


@pytest.mark.parametrize(("device", "is_chosen"), [("AUTO", True), ("AUTO:CPU", False)])
def test_settings_that_leave_the_choice_to_auto_get_the_only_device(
    backend: OpenVinoBackend, tmp_path: Path, device: str, is_chosen: bool
) -> None:
    source = replace(identity(tmp_path, BY_NAME["f32"]), by_settings=True)
    assert is_of_cpu(backend.compile(source, ModelOptions("m", device))) is is_chosen
    # Who says how AUTO is to choose means it, and so does a client.
    assert not is_of_cpu(backend.compile(source, ModelOptions("m", device, {"MODEL_PRIORITY": "HIGH"})))
    assert not is_of_cpu(backend.compile(replace(source, by_settings=False), ModelOptions("m", device)))


def test_auto_chooses_where_there_are_several_devices(tmp_path: Path) -> None:
    class OfTwoDevices(OpenVinoBackend):
        def devices(self) -> tuple[str, ...]:
            return ("CPU", "GPU")

    source = replace(identity(tmp_path, BY_NAME["f32"]), by_settings=True)
    assert not is_of_cpu(OfTwoDevices().compile(source, ModelOptions("m")))


def is_of_cpu(model: OpenVinoModel) -> bool:
    """Whether a model was compiled for the CPU itself, and not for a device that has chosen it."""
    assert model.devices == ("CPU",)
    return "MULTI_DEVICE_PRIORITIES" not in model.properties


@pytest.mark.parametrize("device", ["AUTO:CPU", "MULTI:CPU"])
def test_a_model_of_the_repository_that_cannot_be_exported_says_what_to_set(
    backend: OpenVinoBackend, tmp_path: Path, device: str
) -> None:
    source = identity(tmp_path, BY_NAME["f32"])
    served = backend.compile(replace(source, by_settings=True), ModelOptions("m", device))
    with pytest.raises(ServingError) as caught:
        served.export()
    assert caught.value.code is Code.MODEL_FAILED
    assert caught.value.message == (
        f"model 'm' was compiled for {device}, which cannot export; set device = \"CPU\" in its inferwire.toml, "
        "or start the server with --device CPU"
    )
    with pytest.raises(ServingError, match="Not Implemented"):
        backend.compile(source, ModelOptions("m", device)).export()
    assert backend.compile(replace(source, by_settings=True), ModelOptions("m", "CPU")).export()
