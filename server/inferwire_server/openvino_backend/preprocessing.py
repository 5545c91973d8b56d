"""Builds recorded pre- and postprocessing into OpenVINO models, by its own PrePostProcessor.

Knows the recordings and `openvino.preprocess`; what a setting or a message says is read elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import openvino as ov
from openvino import preprocess

from inferwire_proto.element_types import ElementType
from inferwire_proto.errors import Code
from inferwire_proto.preprocessing import COLOR_FORMAT, PADDING_MODE, RESIZE_ALGORITHM, Call, PortLayout, Recording
from inferwire_proto.properties import EnumValue, PropertyValue
from inferwire_server.core.model_options import Preprocessing
from inferwire_server.errors import ServingError, UnfitSetting
from inferwire_server.openvino_backend.specs import check_inputs

_ENUMERATIONS: dict[str, Any] = {
    COLOR_FORMAT: preprocess.ColorFormat,
    RESIZE_ALGORITHM: preprocess.ResizeAlgorithm,
    PADDING_MODE: preprocess.PaddingMode,
}

_REFUSALS = (RuntimeError, ValueError, TypeError, LookupError)

_MODEL_LAYOUT = ("model", "set_layout")


def build_in(model: ov.Model, preprocessing: Preprocessing) -> ov.Model:
    """Build what was recorded into a model, and give the model with its new ports.

    Raises:
        ServingError: MODEL_FAILED with OpenVINO's reason; UnfitSetting where a setting asks for it.
    """
    calls, setting = preprocessing.calls, preprocessing.setting
    if setting:
        check_inputs(model, (call.port for call in calls if isinstance(call.port, str)), lambda _: setting)
    hint = ""
    try:
        processor = preprocess.PrePostProcessor(model)
        for call in calls:
            _replay(processor, call)
        hint = _hint(model, preprocessing)
        return processor.build()
    except _REFUSALS as error:
        reason = str(error).strip() + hint
        if not setting:
            raise ServingError(Code.MODEL_FAILED, reason) from error
        raise UnfitSetting(setting, _misfit(model, calls) or reason) from error


def describe(model: ov.Model, recording: Recording) -> str:
    """Give OpenVINO's own text of a recording; where it refuses a call, the reason follows as that of a step does.

    Raises:
        ServingError: MODEL_FAILED with OpenVINO's reason where it raises an error in the place of a text.
    """
    built, later = recording.calls[: recording.built_calls], recording.calls[recording.built_calls :]
    try:
        for each in recording.layouts:
            ov.layout_helpers.set_layout(_port(model, each), ov.Layout(each.layout))
        processor = preprocess.PrePostProcessor(model)
        refusals = _replay_each(processor, built)
        if built:
            processor.build()
        refusals += _replay_each(processor, later)
        text = str(processor)
    except _REFUSALS as error:
        raise ServingError(Code.MODEL_FAILED, str(error).strip()) from error
    return "".join([text, *(f"\nError occurred: {reason}\n" for reason in refusals[:1])])


def _port(model: ov.Model, layout: PortLayout) -> Any:
    kind, ports = ("output", model.outputs) if layout.is_output else ("input", model.inputs)
    if layout.index >= len(ports):
        raise ValueError(f"{kind} {layout.index} is given a layout, and the model has {len(ports)}")
    return ports[layout.index]


def _replay_each(processor: preprocess.PrePostProcessor, calls: Iterable[Call]) -> list[str]:
    """Make calls, and give the reasons of those that cannot be made."""
    refusals: list[str] = []
    for call in calls:
        try:
            _replay(processor, call)
        except _REFUSALS as error:
            refusals.append(str(error).strip())
    return refusals


def _misfit(model: ov.Model, calls: Sequence[Call]) -> str:
    """Say that an input has other dimensions than the layout that its settings give it, if that is so."""
    for call in calls:
        layout = call.arguments[0] if call.method == "set_layout" else None
        if not (isinstance(layout, str) and layout.isalpha()):
            continue
        port = _input(model, call)
        shape = port.get_partial_shape()
        if shape.rank.is_static and len(shape) != len(layout):
            picture = " and is no picture" if set("HW") <= set(layout.upper()) else ""
            name = port.get_node().get_friendly_name()
            return f"input '{name}' has shape {shape}{picture}, expected the dimensions of the layout {layout}"
    return ""


def _input(model: ov.Model, call: Call) -> Any:
    return model.input() if call.port is None else model.input(call.port)


def _hint(model: ov.Model, preprocessing: Preprocessing) -> str:
    """Name the setting that says what an input's dimensions are, where neither the model nor the operator does."""
    calls = preprocessing.calls
    if not (preprocessing.setting and calls) or any((call.part, call.method) == _MODEL_LAYOUT for call in calls):
        return ""
    if not ov.layout_helpers.get_layout(_input(model, calls[0])).empty:
        return ""
    return (
        '; the model itself says no layout, and the setting model_layout, as "NCHW" (or layout, where OpenVINO Model '
        "Server's file is read), is not given"
    )


def _replay(processor: preprocess.PrePostProcessor, call: Call) -> None:
    key = () if call.port is None else (call.port,)
    part = getattr(getattr(processor, call.kind)(*key), call.part)()
    arguments = [_argument(call.method, value) for value in call.arguments]
    if call.method == "set_element_type" and not arguments:
        arguments = [ov.Type.dynamic]
    getattr(part, call.method)(*arguments)


def _argument(method: str, value: PropertyValue) -> Any:
    match value:
        case ElementType():
            return getattr(ov.Type, value.name)
        case EnumValue():
            return _member(value)
        case str() if method in ("set_layout", "convert_layout"):
            return ov.Layout(value)
        case str() if method == "set_shape":
            return ov.PartialShape(value)
        case list() if method == "convert_layout" and set(map(repr, value)) != set(map(repr, range(len(value)))):
            # At positions that do not exist, OpenVINO reads and writes foreign memory, which ends the process.
            raise ValueError(f"convert_layout() is given the positions {value}, expected each of the dimensions once")
        case _:
            return value


def _member(value: EnumValue) -> Any:
    members = getattr(_ENUMERATIONS.get(value.type), "__members__", {})
    if value.name not in members:
        raise ValueError(f"{value.type} has no member {value.name}, expected {', '.join(members) or 'none'}")
    return members[value.name]
