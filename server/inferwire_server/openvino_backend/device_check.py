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

    Raises:
        UnfitSetting: Nothing compiles for it.
    """
    x = _op.parameter([1], ov.Type.f32)
    try:
        core.compile_model(_model([_op.result(_op.relu(x))], [x]), device)
    except OPENVINO_ERRORS as error:
        reason = str(error).strip().splitlines()[-1]
        found = ", ".join(core.available_devices)
        raise UnfitSetting(["device"], f"{reason}; expected one of {found}, or AUTO") from error
