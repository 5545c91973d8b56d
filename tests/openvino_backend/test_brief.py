"""The real runtime on the calling thread: the same results, and only for models that may be brief."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as ops
import pytest
from tests.openvino_backend.small_models import EXACT, NOT_ON_CPU, identity, parameter, saved

from inferwire_proto.element_types import BY_NAME, ELEMENT_TYPES, ElementType
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.brief_slot import TRIALS, BriefSlot
from inferwire_server.engine.device import Device
from inferwire_server.engine.model_slots import ModelSlots
from inferwire_server.engine.opening import Opened
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend, OpenVinoModel
from inferwire_server.openvino_backend.brief import MOST_WEIGHT_BYTES
from inferwire_server.openvino_backend.brief_slots import MAX_COPIED_INPUT_BYTES, OpenVinoBriefSlot
from inferwire_server.openvino_backend.graphs import Graphs
from inferwire_server.tallies import Tallies

DIGITS = Path(__file__).parents[2] / "deploy/models/digits_mlp/1/digits_mlp.xml"
BYTE_TYPES = [row for row in ELEMENT_TYPES if row.name not in NOT_ON_CPU and not row.is_string]


def compiled(backend: OpenVinoBackend, source: Source, device: str = "CPU", **properties: str) -> OpenVinoModel:
    return backend.compile(source, ModelOptions("m", device, EXACT | properties))


def rows(count: int) -> Tensor:
    pixels = np.random.default_rng(count).random((count, 64), dtype=np.float32)
    return Tensor(BY_NAME["f32"], (count, 64), pixels.tobytes())


@pytest.mark.parametrize("device", ["CPU", "AUTO", "BATCH:CPU(4)"])
def test_it_gives_what_a_slot_gives_whatever_shape_came_before(backend: OpenVinoBackend, device: str) -> None:
    model = compiled(backend, Source(DIGITS), device)
    slot, brief = model.create_slot(), model.create_brief_slot()
    assert brief is not None
    largest = MAX_COPIED_INPUT_BYTES // 256 + 1
    for count in (1, 1, 3, largest, 1, 2, largest, largest, 3):
        expected = np.frombuffer(slot.run([rows(count)], [0])[0].data, np.float32)
        found = brief.run([rows(count)], [0])[0]
        assert found.shape == (count, 10)
        np.testing.assert_allclose(np.frombuffer(found.data, np.float32), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("row", BYTE_TYPES, ids=lambda row: row.name)
def test_it_takes_every_type_of_a_fixed_size(backend: OpenVinoBackend, tmp_path: Path, row: ElementType) -> None:
    brief = compiled(backend, identity(tmp_path, row)).create_brief_slot()
    assert brief is not None
    for count in (row.unit_elements * 2, row.unit_elements * 3, row.unit_elements * 2):
        given = Tensor(
            row, (count,), bytes(range(1, row.byte_size((count,)) + 1)) if row.name != "boolean" else b"\1" * count
        )
        assert brief.run([given], [0]) == (given,)


def test_an_input_may_come_as_a_view_and_be_empty(backend: OpenVinoBackend) -> None:
    brief = compiled(backend, Source(DIGITS)).create_brief_slot()
    assert brief is not None
    assert brief.run([Tensor(BY_NAME["f32"], (0, 64), b"")], [0])[0].shape == (0, 10)
    held = memoryview(bytearray(rows(2).data))
    assert brief.run([Tensor(BY_NAME["f32"], (2, 64), held)], [0]) == brief.run([rows(2)], [0])


def test_what_it_gave_stays_as_it_was(backend: OpenVinoBackend) -> None:
    brief = compiled(backend, Source(DIGITS)).create_brief_slot()
    assert brief is not None
    (first,) = brief.run([rows(1)], [0])
    before = bytes(first.data)
    brief.run([rows(2)], [0])
    brief.run([Tensor(BY_NAME["f32"], (1, 64), bytes(256))], [0])
    assert first.data == before


def test_what_the_runtime_refused_is_refused_again(backend: OpenVinoBackend) -> None:
    brief = compiled(backend, Source(DIGITS)).create_brief_slot()
    assert brief is not None
    (expected,) = brief.run([rows(1)], [0])
    for _ in range(2):
        with pytest.raises(ServingError):
            brief.run([Tensor(BY_NAME["f32"], (1, 63), bytes(252))], [0])
    assert brief.run([rows(1)], [0]) == (expected,)


def heavy(folder: Path) -> Source:
    x: Any = parameter(BY_NAME["f32"], (-1, 8))
    width = MOST_WEIGHT_BYTES // 32 + 1
    return saved(folder, [("y", ops.matmul(x, ops.constant(np.ones((8, width), np.float32)), False, False))], [x])


def keeping_states(folder: Path) -> Source:
    x: Any = parameter(BY_NAME["f32"], (1,))
    info = ov.op.util.VariableInfo()
    info.data_shape, info.data_type, info.variable_id = ov.PartialShape([1]), ov.Type.f32, "s"
    variable = ov.op.util.Variable(info)
    read: Any = ops.read_value(ops.constant(np.zeros(1, np.float32)), variable)
    total: Any = ops.add(x, read)
    make: Any = ov.Model
    model = make([ops.result(total)], [ops.assign(total, variable)], [x], "counting")
    path = folder / "model.xml"
    ov.save_model(model, path, compress_to_fp16=False)
    return Source(path)


def taking_text(folder: Path) -> Source:
    return identity(folder, BY_NAME["string"])


def counting_to_a_value(folder: Path) -> Source:
    n = parameter(BY_NAME["i64"], ())
    numbers: Any = ops.range(ops.constant(np.int64(0)), n, ops.constant(np.int64(1)), "i64")
    return saved(folder, [("y", ops.reduce_sum(numbers, ops.constant(np.array([0])), False))], [n])


def going_round_as_often_as_a_value_says(folder: Path) -> Source:
    x, times = parameter(BY_NAME["f32"], (1,)), parameter(BY_NAME["i64"], (), "times")
    inside: Any = ops.parameter([1], ov.Type.f32)
    more: Any = ops.add(inside, ops.constant(np.ones(1, np.float32)))
    goes_on: Any = ops.constant(np.array([True]))
    make: Any = ov.Model
    loop: Any = ops.loop(times, ops.constant(np.array([True])))
    loop.set_function(make([more, goes_on], [inside], "body"))
    loop.set_special_body_ports([-1, 1])
    loop.set_merged_input(inside, x.output(0), more.output(0))
    return saved(folder, [("y", loop.get_iter_value(more.output(0), -1))], [x, times])


def of_no_length_that_fits(folder: Path) -> Source:
    x = parameter(BY_NAME["f32"], (-1,))
    return saved(folder, [("y", ops.reshape(x, ops.constant(np.array([2, 4])), False))], [x])


@pytest.mark.parametrize(
    "make",
    [
        heavy,
        keeping_states,
        taking_text,
        counting_to_a_value,
        going_round_as_often_as_a_value_says,
        of_no_length_that_fits,
    ],
)
def test_a_model_that_cannot_be_brief_has_none(
    backend: OpenVinoBackend, tmp_path: Path, make: Callable[[Path], Source]
) -> None:
    assert compiled(backend, make(tmp_path)).create_brief_slot() is None


def test_a_blob_has_none(backend: OpenVinoBackend, tmp_path: Path) -> None:
    blob = tmp_path / "model.blob"
    blob.write_bytes(compiled(backend, Source(DIGITS)).export())
    assert compiled(backend, Source(blob, is_compiled=True)).create_brief_slot() is None


def test_streams_and_threads_that_were_asked_for_are_the_models_own(backend: OpenVinoBackend) -> None:
    model = compiled(backend, Source(DIGITS), NUM_STREAMS="1")
    assert model.create_brief_slot() is not None
    assert model.properties["NUM_STREAMS"] == 1


async def test_an_inference_that_fails_on_the_loop_has_its_graph_made_anew_on_a_thread(
    backend: OpenVinoBackend, tmp_path: Path
) -> None:
    index = parameter(BY_NAME["i64"], (-1, 2))
    bag: Any = ops.embedding_bag_packed_sum(ops.constant(np.ones((8, 4), np.float32)), index)
    source = saved(tmp_path, [("y", bag)], [index])
    made_on: list[int] = []

    def renew(_: ov.CompiledModel) -> ov.CompiledModel:
        made_on.append(get_ident())
        return ov.Core().compile_model(source.path, "CPU")

    model = compiled(backend, source)
    graphs = Graphs(ov.Core().compile_model(source.path, "CPU"), renew)
    brief = BriefSlot(OpenVinoBriefSlot(graphs, model.spec), lambda: 0.0)
    device = Device("CPU", Scheduler(8), Tallies().of)
    device.add_model("m", Opened(model, ModelSlots([model.create_slot()], model.create_slot, brief)))

    async def run(row: int) -> tuple[bool, Tensor | ServingError]:
        """Say whether an inference has ended at once, which it can on the loop alone, and what came of it."""
        tensor = Tensor(BY_NAME["i64"], (1, 2), np.array([row, row]).tobytes())
        end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        job = Job("m", Work((tensor,), (0,)), 0.0, on_end=end.set_result)
        device.submit(job, at_once=True)
        has_ended_at_once = job.state.is_terminal
        await end
        return has_ended_at_once, job.error or job.result()[0]

    try:
        for _ in range(TRIALS):
            assert not (await run(1))[0]
        good = await run(1)
        assert good[0]
        was_on_loop, failure = await run(99)
        assert was_on_loop
        assert isinstance(failure, ServingError)
        assert failure.code is Code.INFERENCE_FAILED
        assert not made_on
        assert await run(1) == (False, good[1])
        assert len(made_on) == 1
        assert get_ident() not in made_on
        for _ in range(TRIALS):
            assert await run(1) == (False, good[1])
        assert await run(1) == good
        assert len(made_on) == 1
    finally:
        device.close()
