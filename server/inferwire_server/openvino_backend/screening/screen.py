"""Refuses or mends models that would bring the whole server down as they are compiled or run.

Knows in which operations OpenVINO goes past the end of its memory, or gives what lies there, or in which one caller's
inference changes what others get. Takes graphs as they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inferwire_server.openvino_backend.screening.attention import give_masks_batches, mask_attention
from inferwire_server.openvino_backend.screening.compressed_weights import keep_weights_whole
from inferwire_server.openvino_backend.screening.conversions import part_inputs_from_results, refuse_unsafe_conversions
from inferwire_server.openvino_backend.screening.first_values import begin_states
from inferwire_server.openvino_backend.screening.gathers import gather_from_one_batch
from inferwire_server.openvino_backend.screening.layers import hold_to_widths, part_gated_layers
from inferwire_server.openvino_backend.screening.lists import fill_what_is_left, find_something
from inferwire_server.openvino_backend.screening.loops import (
    copy_what_bodies_give,
    empty_what_is_read_as_zero,
    empty_what_no_turn_gives,
    leave_first_shapes_open,
)
from inferwire_server.openvino_backend.screening.planes import fit_planes
from inferwire_server.openvino_backend.screening.quantization import mend_quantized_layers
from inferwire_server.openvino_backend.screening.states import copy_what_replaces_states

_STEPS: tuple[Callable[[Any], None], ...] = (
    refuse_unsafe_conversions,
    part_inputs_from_results,
    begin_states,
    copy_what_replaces_states,
    give_masks_batches,
    mask_attention,
    leave_first_shapes_open,
    empty_what_no_turn_gives,
    empty_what_is_read_as_zero,
    copy_what_bodies_give,
    mend_quantized_layers,
    keep_weights_whole,
    gather_from_one_batch,
    fill_what_is_left,
    find_something,
    part_gated_layers,
    hold_to_widths,
    fit_planes,
)
"""What is done to a graph, in this order: some have to see what others have put there."""


def screen(model: Any) -> None:
    """Change a graph so that it stays within its memory as it is compiled and runs, and its callers apart.

    Raises:
        ValueError: For a graph that would not; names the node.
    """
    for step in _STEPS:
        step(model)
