"""Whether a device that settings name is one that models compile for: asked once a model has failed to."""

from __future__ import annotations

from typing import Any

import openvino as ov
from openvino import opset13

from inferwire_server.errors import UnfitSetting
from inferwire_server.openvino_backend.errors import OPENVINO_ERRORS

_op: Any = opset13
_model: Any = ov.Model


def check_device(core: ov.Core, device: str) -> None:
    """Check a device with a model that every device can run.

    Where not even that compiles for a device that is there, memory or threads have run short, and it is left to what
    has failed to say so. AUTO takes whatever there is.

    Raises:
        UnfitSetting: Nothing compiles for it, and it is none of those that are there.
    """
    x = _op.parameter([1], ov.Type.f32)
    try:
        core.compile_model(_model([_op.result(_op.relu(x))], [x]), device)
    except OPENVINO_ERRORS as error:
        found = core.available_devices
        if found and device not in (*found, "AUTO"):
            sentence = f"{_last_words(str(error))}; expected one of {', '.join(found)}, or AUTO"
            raise UnfitSetting(["device"], sentence) from error


def _last_words(text: str) -> str:
    """Give the last line that has words: the innermost error's. AUTO ends its list of them by a line without any."""
    lines = [line.strip("; ") for line in text.splitlines()]
    return next((line for line in reversed(lines) if line), text)
