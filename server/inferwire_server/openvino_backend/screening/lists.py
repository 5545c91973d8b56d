"""Mends what the CPU plugin leaves as it was where an operation has less to give than there is room for.

The caller would get what the inference before has left there, another caller's. Takes graphs as they are read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from openvino import opset13

from inferwire_server.openvino_backend.edges import lead, nodes

op: Any = opset13

_BEHIND_ALL = -np.inf
"""The score of a region that comes behind all others."""

_BEFORE_ALL = np.inf
"""The score of one that is found whatever the thresholds are."""


def fill_what_is_left(model: Any) -> None:
    """Have lists that are shorter than what there is room for end in zeros, or in the token that says so.

    As of OpenVINO 2026.4 the CPU plugin writes nothing there.
    """
    for node in [*nodes(model)]:
        if node.get_type_name() == "ExperimentalDetectronTopKROIs":
            _add_regions(node)
        elif node.get_type_name() == "Proposal" and node.get_output_size() > 1:
            _clear_scores(node)
        elif node.get_type_name() == "GatherTree":
            _end_what_has_no_length(node)


def find_something(model: Any) -> None:
    """Have MatrixNms choose from one image more, in which each class is found, and drop what it found there.

    As of OpenVINO 2026.4 the CPU plugin makes no room for how many were found in each image if there are none in any,
    and writes the numbers all the same: past its memory's end, which ends the process.
    """
    for node in [*nodes(model)]:
        if node.get_type_name() == "MatrixNms":
            _add_image(node)


def _add_regions(best: Any) -> None:
    """Have as many regions of zeros as are picked come behind those that there are, if these may be fewer."""
    most = best.get_attributes()["max_rois"]
    regions, scores = best.input_values()
    shape = scores.get_partial_shape()
    if shape.rank.is_dynamic or shape[0].get_min_length() < most:
        nothing, behind_all = _of_type(0, regions), _of_type(_BEHIND_ALL, scores)
        more = op.pad(regions, np.array([0, 0]), np.array([most, 0]), "constant", nothing)
        best.input(0).replace_source_output(more.output(0))
        more = op.pad(scores, np.array([0]), np.array([most]), "constant", behind_all)
        best.input(1).replace_source_output(more.output(0))


def _clear_scores(proposal: Any) -> None:
    """Have the scores behind those of an image's regions be zeros. A region of image -1 says where they end."""
    regions, scores = proposal.outputs()
    targets = scores.get_target_inputs()
    if targets:
        images = op.gather(regions, np.int64(0), np.int64(1))
        is_end = op.convert(op.less(images, _of_type(0, regions)), "i32")
        by_image = op.reshape(is_end, np.array([-1, proposal.get_attributes()["post_nms_topn"]]), False)
        is_behind = op.convert(op.reshape(op.cum_sum(by_image, np.int64(1)), np.array([-1]), False), "boolean")
        lead(targets, op.select(is_behind, _of_type(0, scores), scores).output(0))


def _end_what_has_no_length(tree: Any) -> None:
    """Have a sequence of no length consist of the token for its end."""
    *_, lengths, end = tree.input_values()
    targets = tree.output(0).get_target_inputs()
    has_none = op.unsqueeze(op.less(lengths, _of_type(1, lengths)), np.array([0, 2]))
    lead(targets, op.select(has_none, end, tree).output(0))


def _add_image(choosing: Any) -> None:
    boxes, scores = choosing.input_values()
    images, classes, count = op.split(op.shape_of(scores), np.int64(0), 3).outputs()
    one = np.array([1])
    found = op.broadcast(_of_type(_BEFORE_ALL, scores), op.concat([one, classes, one], 0))
    others = op.concat([np.array([0, 0]), op.subtract(count, one)], 0)
    more = op.pad(found, np.zeros(3, np.int64), others, "constant", _of_type(_BEHIND_ALL, scores))
    targets = [output.get_target_inputs() for output in choosing.outputs()]
    choosing.input(1).replace_source_output(op.concat([scores, more], 0).output(0))
    more = op.pad(boxes, np.zeros(3, np.int64), np.array([1, 0, 0]), "constant", _of_type(0, boxes))
    choosing.input(0).replace_source_output(more.output(0))
    choosing.validate_and_infer_types()

    chosen, places, numbers = choosing.outputs()
    flat = op.convert(op.reshape(places, np.array([-1]), False), "i64")
    own = op.squeeze(op.non_zero(op.less(flat, op.multiply(images, count))), np.array([0]))
    for output, users in zip((chosen, places), targets, strict=False):
        lead(users, op.gather(output, own, np.int64(0)).output(0))
    lead(targets[-1], op.slice(numbers, np.array([0]), images, one).output(0))


def _of_type(value: float, like: Any) -> Any:
    return op.constant(value, dtype=like.get_element_type())
