"""Checks the device and the properties that settings have a model compiled with, after it has failed to compile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import openvino as ov
from openvino import opset13

from inferwire_server.errors import UnfitSetting
from inferwire_server.openvino_backend.errors import OPENVINO_ERRORS
from inferwire_server.openvino_backend.properties import set_property

_op: Any = opset13
_model: Any = ov.Model


def check_device(core: ov.Core, device: str) -> None:
    """Check a device with a model that every device can run.

    If not even that compiles for a device that exists, memory or threads have run short, and the error of the model
    that has failed says so. AUTO takes whatever there is.

    Raises:
        UnfitSetting: If nothing compiles for the device, and it does not exist.
    """
    x = _op.parameter([1], ov.Type.f32)
    try:
        core.compile_model(_model([_op.result(_op.relu(x))], [x]), device)
    except OPENVINO_ERRORS as error:
        found = core.available_devices
        if found and device not in (*found, "AUTO"):
            sentence = f"{_last_words(str(error))}; expected one of {', '.join(found)}, or AUTO"
            raise UnfitSetting(["device"], sentence) from error


def check_each_property(device: str, config: Mapping[str, Any], reason: str) -> None:
    """Check properties by a runtime of their own, in which each is set by itself.

    Raises:
        UnfitSetting: For the first that the device refuses with words that are in the reason for the failure.
    """
    scratch = ov.Core()
    for name, value in config.items():
        try:
            set_property(scratch, (device,), {name: value})
        except OPENVINO_ERRORS as error:
            words = _last_words(str(error))
            if words in reason:
                raise UnfitSetting(["properties", name], words) from error


def _last_words(text: str) -> str:
    """Give the last line that has words: the innermost error's. AUTO ends its list of errors by a line without any."""
    lines = [line.strip("; ") for line in text.splitlines()]
    return next((line for line in reversed(lines) if line), text)
