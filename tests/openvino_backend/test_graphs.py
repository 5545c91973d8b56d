"""An inference that fails or is cancelled leaves nothing behind in a graph of OpenVINO's that others suffer from."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from time import sleep
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import Slot
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend, OpenVinoModel
from inferwire_server.openvino_backend.graphs import Graph, Graphs
from inferwire_server.openvino_backend.sources import renewal

GOOD, BAD = 8, 7
NETWORK = Path(__file__).resolve().parents[2] / "deploy/models/efficientnet_lite0/1/efficientnet_lite0.xml"
"""Of as many pictures as there are."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model of whatever length, as it says, which then wants rows of four."""
    data = op.parameter([ov.Dimension(4, 1000)], np.float32, name="data")
    rows = op.reshape(op.relu(data), op.constant(np.array([-1, 4], np.int64)), special_zero=False)
    make: Any = ov.Model
    ov.save_model(make([op.result(rows)], [data], "rows"), tmp_path / "rows.xml")
    return tmp_path / "rows.xml"


@pytest.fixture(params=["CPU", "AUTO"])
def model(path: Path, request: pytest.FixtureRequest) -> OpenVinoModel:
    return OpenVinoBackend().compile(Source(path), ModelOptions("rows", request.param, {"NUM_STREAMS": "1"}))


def infer(slot: Slot, length: int) -> int:
    """Infer, and say how many rows came of it."""
    (found,) = slot.run([Tensor(BY_NAME["f32"], (length,), np.ones(length, np.float32).tobytes())], [0])
    return found.shape[0]


def floats(tensor: Tensor) -> Any:
    return np.frombuffer(tensor.data, np.float32)


def fail(slot: Slot) -> None:
    with pytest.raises(ServingError, match=rf"\({BAD}\)") as caught:
        infer(slot, BAD)
    assert caught.value.code is Code.INFERENCE_FAILED


def brief_slot(model: OpenVinoModel) -> Slot:
    slot = model.create_brief_slot()
    assert slot is not None
    return slot


def test_openvinos_own_graphs_are_spoilt(path: Path) -> None:
    """Once it is not so any more, what is tested here may go."""
    request = ov.Core().compile_model(path, "CPU", {"NUM_STREAMS": "1"}).create_infer_request()
    request.infer([np.ones(GOOD, np.float32)])
    for length in (BAD, GOOD):
        with pytest.raises(RuntimeError, match=rf"\({BAD}\)"):
            request.infer([np.ones(length, np.float32)])


@pytest.mark.parametrize("make", [OpenVinoModel.create_slot, brief_slot], ids=["on threads", "on the loop"])
def test_what_follows_a_failure_in_the_same_slot_and_in_others_is_not_touched_by_it(
    model: OpenVinoModel, make: Callable[[OpenVinoModel], Slot]
) -> None:
    slots = [make(model) for _ in range(2)]
    for slot in slots:
        assert infer(slot, GOOD) == 2
    for slot in slots:
        fail(slot)
        fail(slot)
        assert [infer(each, GOOD) for each in slots for _ in range(2)] == [2] * 4


def test_inferences_beside_ones_that_fail_do_not(model: OpenVinoModel) -> None:
    slots = [model.create_slot() for _ in range(2)]
    for slot in slots:
        infer(slot, GOOD)

    def run(slot: Slot, length: int) -> None:
        for _ in range(10):
            if length == GOOD:
                assert infer(slot, GOOD) == 2
            else:
                fail(slot)

    with ThreadPoolExecutor(2) as threads:
        for each in [threads.submit(run, *pair) for pair in zip(slots, (GOOD, BAD), strict=True)]:
            each.result()


def test_what_ran_beside_one_that_failed_runs_again(model: OpenVinoModel) -> None:
    good, bad = (model.create_slot() for _ in range(2))
    shapes: list[tuple[int, ...]] = []

    def transform(found: Tensor) -> Tensor:
        shapes.append(found.shape)
        if len(shapes) == 1:
            fail(bad)
        return found.on_its_own()

    data = Tensor(BY_NAME["f32"], (GOOD,), np.ones(GOOD, np.float32).tobytes())
    (rows,) = good.run([data], [0], (transform,))
    assert shapes == [(2, 4), (2, 4)]
    assert rows.shape == (2, 4)


def test_a_graph_is_not_trusted_as_soon_as_a_request_has_failed_in_it(path: Path) -> None:
    graph = Graph(ov.Core().compile_model(path, "CPU"))
    request = graph.compiled.create_infer_request()
    graph.running.add(request)
    assert graph.is_trusted()
    request.start_async([np.ones(BAD, np.float32)])
    with pytest.raises(RuntimeError, match=rf"\({BAD}\)"):
        request.wait()
    assert not graph.is_trusted()
    graph.running.discard(request)
    assert graph.is_trusted()
    graph.is_spoilt = True
    assert not graph.is_trusted()


def test_what_fails_changes_no_ones_answer_beside_it(tmp_path: Path) -> None:
    data = op.parameter([ov.Dimension(4, 1000)], np.float32, name="data")
    rows = op.reshape(data, op.constant(np.array([-1, 4], np.int64)), special_zero=False)
    like = op.tanh(op.tanh(data))
    make: Any = ov.Model
    # What fails is the other branch's: this one would go on with the shape of what has failed.
    ov.save_model(make([op.result(like), op.result(rows)], [data], "branches"), tmp_path / "branches.xml")
    options = ModelOptions("branches", "CPU", {"NUM_STREAMS": "1"})
    model = OpenVinoBackend().compile(Source(tmp_path / "branches.xml"), options)
    good, bad = (model.create_slot() for _ in range(2))

    def fail_often() -> None:
        for _ in range(30):
            fail(bad)

    with ThreadPoolExecutor(1) as threads:
        failing = threads.submit(fail_often)
        lengths: list[int] = []
        while not failing.done():
            lengths.append(infer(good, GOOD))
        failing.result()
    assert set(lengths) == {GOOD}


def test_what_is_cancelled_changes_no_ones_answer_after_it() -> None:
    options = ModelOptions("net", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"})
    slot = OpenVinoBackend().compile(Source(NETWORK), options).create_slot()
    pictures = np.random.default_rng(0).random((2, 3, 224, 224), np.float32)
    both = Tensor(BY_NAME["f32"], pictures.shape, pictures.tobytes())
    one = Tensor(BY_NAME["f32"], (1, *pictures.shape[1:]), pictures[:1].tobytes())
    (expected,) = slot.run([one], [0])
    with ThreadPoolExecutor(1) as threads:
        for tenths_ms in range(100):
            running = threads.submit(slot.run, [both], [0])
            sleep(tenths_ms / 10_000)
            slot.cancel()
            with suppress(ServingError):
                running.result()
            (found,) = slot.run([one], [0])
            assert found.shape == expected.shape
            np.testing.assert_allclose(floats(found), floats(expected), atol=1e-4)


def test_the_new_graph_is_everybodys_whether_what_failed_fails_again_or_not(path: Path) -> None:
    core = ov.Core()
    made: list[ov.CompiledModel] = []

    def renew(_: ov.CompiledModel) -> ov.CompiledModel:
        made.append(core.compile_model(path, "CPU"))
        return made[-1]

    def infer_in(graph: Graph, length: int) -> int:
        return graph.compiled.create_infer_request().infer([np.ones(length, np.float32)])[0].shape[0]

    graphs = Graphs(core.compile_model(path, "CPU"), renew)
    failure = RuntimeError("somebody else's shape")
    first = graphs.current
    assert graphs.run_anew(lambda graph: infer_in(graph, GOOD), first, failure) == 2
    assert first.is_spoilt
    assert graphs.good().compiled is made[0]
    with pytest.raises(RuntimeError, match=rf"\({BAD}\)"):
        graphs.run_anew(lambda graph: infer_in(graph, BAD), graphs.current, failure)
    assert graphs.good().compiled is made[1]


@pytest.mark.parametrize("later_ns", [1, 0], ids=["later", "of the same time and size"])
def test_a_model_whose_files_are_others_by_now_stays_what_it_was(path: Path, later_ns: int) -> None:
    model = OpenVinoBackend().compile(Source(path), ModelOptions("rows", "CPU", {"NUM_STREAMS": "1"}))
    slot = model.create_slot()
    infer(slot, GOOD)
    status = path.stat()
    path.write_text("no model".ljust(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + later_ns))
    fail(slot)
    assert infer(slot, GOOD) == 2


def test_a_model_whose_weights_alone_are_others_by_now_stays_what_it_was(path: Path) -> None:
    data = op.parameter([ov.Dimension(4, 1000)], np.float32, name="data")
    rows = op.reshape(data, op.constant(np.array([-1, 4], np.int64)), special_zero=False)
    weighted = op.multiply(rows, op.constant(np.full((1, 4), 2.0, np.float32)))
    make: Any = ov.Model
    ov.save_model(make([op.result(weighted)], [data], "rows"), path, compress_to_fp16=False)
    model = OpenVinoBackend().compile(Source(path), ModelOptions("rows", "CPU", {"NUM_STREAMS": "1"}))
    slot = model.create_slot()
    weights = path.with_suffix(".bin")
    weights.write_bytes(weights.read_bytes().replace(np.float32(2.0).tobytes(), np.float32(3.0).tobytes()))
    fail(slot)
    (found,) = slot.run([Tensor(BY_NAME["f32"], (GOOD,), np.ones(GOOD, np.float32).tobytes())], [0])
    assert floats(found).tolist() == [2.0] * GOOD


def test_a_model_whose_folder_is_gone_is_made_of_what_is_in_memory(path: Path, tmp_path: Path) -> None:
    core = ov.Core()
    compiled = core.compile_model(path, "CPU")
    source = Source(tmp_path / "brought" / "model.onnx")
    source.path.parent.mkdir()
    source.path.touch()
    renew = renewal(core, source, "CPU", {})
    rmtree(source.path.parent)
    assert renew(compiled).create_infer_request().infer([np.ones(GOOD, np.float32)])[0].shape == (2, 4)


def test_what_is_in_memory_makes_as_many_as_are_needed(path: Path) -> None:
    core = ov.Core()
    compiled = core.compile_model(path, "CPU")
    renew = renewal(core, Source(path), "CPU", {})
    path.unlink()
    again = renew(renew(compiled))
    assert again.create_infer_request().infer([np.ones(GOOD, np.float32)])[0].shape == (2, 4)


def test_what_cannot_be_made_anew_fails_as_it_did(path: Path) -> None:
    model = OpenVinoBackend().compile(Source(path), ModelOptions("rows", "AUTO", {"NUM_STREAMS": "1"}))
    slot = model.create_slot()
    infer(slot, GOOD)
    path.unlink()
    fail(slot)  # AUTO exports nothing
