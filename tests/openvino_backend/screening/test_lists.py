"""Where an operation has less to give than there is room for, nobody gets what the inference before has left there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13
from openvino.utils.node_factory import NodeFactory
from tests.openvino_backend.own_process import run_apart

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import Slot
from inferwire_server.openvino_backend.backend import OpenVinoBackend
from inferwire_server.openvino_backend.sources import read_model, read_to_run

op: Any = opset13
make: Any = openvino.Model

DTYPES: dict[str, Any] = {"f32": np.float32, "i32": np.int32}


def slot_of(outputs: Sequence[Any], inputs: Sequence[Any], path: Path) -> Slot:
    model = make([op.result(output) for output in outputs], list(inputs), "m")
    openvino.save_model(model, path, compress_to_fp16=False)
    options = ModelOptions("m", "CPU", {"NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"})
    return OpenVinoBackend().compile(Source(path), options).create_slot()


def run(slot: Slot, kind: str, *inputs: Any) -> np.ndarray[Any, Any]:
    arrays = [np.array(each, DTYPES[kind]) for each in inputs]
    (found,) = slot.run([Tensor(BY_NAME[kind], each.shape, each.tobytes()) for each in arrays], [0])
    return np.frombuffer(found.data, DTYPES[kind]).reshape(found.shape)


def made(opset: str, kind: str, inputs: Sequence[Any], settings: dict[str, Any]) -> Any:
    """Make an operation that has no function, or one that does not take its settings."""
    return NodeFactory(opset).create(kind, [each.output(0) for each in inputs], settings)


def best_regions(regions: Any, scores: Any, most: int) -> Any:
    return made("opset6", "ExperimentalDetectronTopKROIs", [regions, scores], {"max_rois": most})


def test_fewer_regions_than_are_picked_are_followed_by_zeros(tmp_path: Path) -> None:
    regions, scores = op.parameter([-1, 4], np.float32), op.parameter([-1], np.float32)
    slot = slot_of([best_regions(regions, scores, 3)], [regions, scores], tmp_path / "model.xml")
    rows = np.arange(16).reshape(4, 4) + 1
    np.testing.assert_array_equal(run(slot, "f32", rows, [0.1, 0.4, 0.2, 0.3]), rows[[1, 3, 2]])
    np.testing.assert_array_equal(run(slot, "f32", rows[:1] + 50, [-2]), [rows[0] + 50, [0] * 4, [0] * 4])
    np.testing.assert_array_equal(run(slot, "f32", np.zeros((0, 4)), []), np.zeros((3, 4)))


def proposed_scores(scores: Any, deltas: Any, most: int) -> Any:
    """Propose regions, each of 16 by 16 in a grid."""
    sizes = {"base_size": 16, "feat_stride": 16, "min_size": 1, "ratio": [1.0], "scale": [1.0], "nms_thresh": 0.5}
    size = op.constant(np.array([160, 160, 1], np.float32))
    counts = {"pre_nms_topn": 50, "post_nms_topn": most}
    return made("opset4", "Proposal", [scores, deltas, size], sizes | counts).output(1)


def test_fewer_proposals_than_there_is_room_for_have_scores_of_their_own(tmp_path: Path) -> None:
    scores, deltas = op.parameter([-1, 2, 1, -1], np.float32), op.parameter([-1, 4, 1, -1], np.float32)
    slot = slot_of([proposed_scores(scores, deltas, 4)], [scores, deltas], tmp_path / "model.xml")

    def found(best: Sequence[float], shift: float) -> np.ndarray[Any, Any]:
        """Give the scores of the best of nine regions in each of two images, each shifted from one to the next."""
        foreground = np.stack([first - np.arange(9) / 100 for first in best])[:, np.newaxis, np.newaxis]
        moved = np.zeros((2, 4, 1, 9))
        moved[:, 0] = shift * np.arange(9)
        return run(slot, "f32", np.concatenate([np.zeros_like(foreground), foreground], 1), moved)

    np.testing.assert_allclose(found([0.9, 0.5], 0), [0.9, 0.89, 0.88, 0.87, 0.5, 0.49, 0.48, 0.47], rtol=1e-5)
    # All lie in the same place: one is left of each image.
    np.testing.assert_allclose(found([0.8, 0.4], -1), [0.8, 0, 0, 0, 0.4, 0, 0, 0], rtol=1e-5)


def test_a_sequence_of_no_length_is_at_its_end(tmp_path: Path) -> None:
    steps, parents = op.parameter([-1, -1, 1], np.int32), op.parameter([-1, -1, 1], np.int32)
    lengths, end = op.parameter([-1], np.int32), op.constant(np.int32(9))
    slot = slot_of([op.gather_tree(steps, parents, lengths, end)], [steps, parents, lengths], tmp_path / "model.xml")

    def found(steps: Sequence[Sequence[int]], *lengths: int) -> np.ndarray[Any, Any]:
        given = np.array(steps)[..., np.newaxis]
        return run(slot, "i32", given, np.zeros_like(given), lengths)[..., 0]

    np.testing.assert_array_equal(found([[1, 2], [3, 4]], 2, 2), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(found([[5, 6], [7, 8]], 0, 1), [[9, 6], [9, 9]])


SCATTERED = np.array([[x, x, x + 9, x + 9] for x in (0, 2, 20, 40)], np.float32)


def chosen_regions(scores: Any, **settings: Any) -> Sequence[Any]:
    """Choose from four regions, of which the first two overlap, in each of two images."""
    regions = op.constant(np.stack([SCATTERED, SCATTERED]))
    common = {"score_threshold": 0.2, "background_class": 0, "nms_top_k": -1, "keep_top_k": -1}
    return made("opset8", "MatrixNms", [regions, scores], common | settings).outputs()


@pytest.mark.parametrize(("score", "post_threshold"), [(0.1, 0.0), (0.9, 1.0)])
def test_images_in_which_nothing_is_found_have_a_number_each(
    score: float, post_threshold: float, tmp_path: Path
) -> None:
    scores = op.parameter([2, 3, 4], np.float32)
    *_, numbers = chosen_regions(scores, post_threshold=post_threshold)
    model = make([op.result(op.convert(numbers, "f32"))], [scores], "m")
    openvino.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    found = run_apart(tmp_path / "model.xml", np.full((2, 3, 4), score, np.float32))
    np.testing.assert_array_equal(found, [0, 0])


@pytest.mark.parametrize(
    ("across", "kind", "places"),
    [
        (False, "score", [1, 2, 2, 6]),
        (True, "score", [1, 6, 2, 2]),
        (True, "classid", [1, 2, 6, 2]),
    ],
)
def test_regions_that_are_found_stay_in_their_order(
    across: bool, kind: str, places: Sequence[int], tmp_path: Path
) -> None:
    scores = op.parameter([-1, -1, 4], np.float32)
    settings = {"sort_result_across_batch": across, "sort_result_type": kind, "output_type": "i32"}
    chosen, indices, numbers = chosen_regions(scores, **settings)
    given = np.zeros((2, 3, 4), np.float32)
    given[:, 0] = 1  # the background
    given[0, 1, 1:3] = 0.9, 0.5
    given[0, 2, 2], given[1, 1, 2] = 0.3, 0.8
    outputs = [op.convert(indices, "f32"), op.convert(numbers, "f32"), chosen]
    listed = op.concat([op.reshape(each, np.array([-1]), False) for each in outputs], 0)
    model = make([op.result(listed)], [scores], "m")
    openvino.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    found = run_apart(tmp_path / "model.xml", given)
    np.testing.assert_array_equal(found[:6], [*places, 3, 1])
    np.testing.assert_allclose(found[6:].reshape(4, 6)[:, 2:], SCATTERED[np.array(places) % 4])


@pytest.mark.parametrize("count", [3, 4])
def test_as_many_regions_as_are_picked_are_left_alone(count: int, tmp_path: Path) -> None:
    regions, scores = op.parameter([count, 4], np.float32), op.parameter([count], np.float32)
    model = make([op.result(best_regions(regions, scores, 3))], [regions, scores], "m")
    openvino.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    core, source = openvino.Core(), Source(tmp_path / "model.xml")
    kinds = [
        [node.get_type_name() for node in read(core, source).get_ordered_ops()] for read in (read_model, read_to_run)
    ]
    assert kinds[0] == kinds[1]
