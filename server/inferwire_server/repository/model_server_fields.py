"""What OpenVINO Model Server's configuration file says of one model, as an `inferwire.toml` would say it.

Knows the fields of `model_config_list[].config` and no file. What has no counterpart here is refused with a reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from inferwire_proto.element_types import BY_NAME, BY_OIP
from inferwire_server.core.limits import LARGEST, MOST_SLOTS
from inferwire_server.repository.preprocessing_settings import COLORS, MEAN, SCALE, is_mean, is_scale
from inferwire_server.repository.setting_readers import ANY
from inferwire_server.repository.setting_values import UnfitValue, is_whole, switch, text, whole

Table: TypeAlias = dict[str, Any]

ONLY_INPUT = ""
"""What a setting for a model's only input is named after."""

FIELDS = {
    "device": "target_device",
    "slots": "nireq",
    "version_policy": "model_version_policy",
    "properties": "plugin_config",
    "shapes": "shape",
    "batch": "batch_size",
    "max_sequences": "max_sequence_number",
    "sequence_idle_s": "idle_sequence_cleanup",
    "preprocessing": "what layout, precision, color_format, mean and scale say as preprocessing",
}
"""What errors call a setting that the file makes: the fields that it is from."""

_SHAPE = "dimensions such as (1,3,224,224): lengths, -1 for any, or ranges such as 200:500; or auto"
_BATCH = "a number of rows, -1 or auto for any, or a range such as 1:8"
_LAYOUT = "a layout such as NCHW, or the callers' and the model's such as NHWC:NCHW"
_COLORS = {"NV12": "NV12_SINGLE_PLANE", "I420": "I420_SINGLE_PLANE"}


def translate(config: Mapping[str, object]) -> tuple[Table, list[str]]:
    """Give the table of settings, and a sentence for each field that has no counterpart."""
    parts: dict[str, Table] = {}
    problems: list[str] = []
    for name, value in config.items():
        read = _READERS.get(name)
        if read is None:
            problems.append(f"{name} is no field of a model")
            continue
        try:
            parts[name] = read(value)
        except UnfitValue as unfit:
            unfit.lies_in(name)
            problems.append(str(unfit))
    if "shape" in parts:
        parts.pop("batch_size", None)  # as there: the shape has the batch in it
    table: Table = {}
    for part in parts.values():
        _lay_over(table, part)
    problems += _gather_only_input(table)
    return table, problems


def _lay_over(table: Table, part: Table) -> None:
    for name, value in part.items():
        if isinstance(value, dict) and name in table:
            _lay_over(table[name], cast("Table", value))
        else:
            table[name] = value


def _gather_only_input(table: Table) -> list[str]:
    """Move settings of the only input to the input's name, where the layout gives it."""
    inputs: Table = table.get("preprocessing", {})
    if ONLY_INPUT not in inputs or len(inputs) == 1:
        return []
    nameless = inputs.pop(ONLY_INPUT)
    if len(inputs) > 1:
        return [f"{', '.join(nameless)} is for a model with one input, and layout names {', '.join(inputs)}"]
    for named in inputs.values():
        named |= nameless
    return []


def _nothing(_value: object) -> Table:
    return {}


def _slots(value: object) -> Table:
    slots = whole(value, 0, MOST_SLOTS)
    return {"slots": slots} if slots else {}


def _version_policy(value: object) -> Table:
    policy = _policy(_parsed(value))
    if policy is None:
        raise UnfitValue(
            value, 'one of {"latest": {"num_versions": 2}}, {"specific": {"versions": [1, 3]}} and {"all": {}}'
        )
    return {"version_policy": policy}


def _policy(value: Any) -> str | None:
    match value:
        case {"all": {**terms}, **others} if not terms and not others:
            return "all"
        case {"latest": {**terms}, **others} if not terms and not others:
            return "latest"
        case {"latest": {"num_versions": count, **terms}, **others} if not terms and not others:
            return f"latest:{count}" if is_whole(count, 1) else None
        case {"specific": {"versions": [_, *_] as versions, **terms}, **others} if not terms and not others:
            return ",".join(map(str, versions)) if all(is_whole(version, 1) for version in versions) else None
        case _:
            return None


def _properties(value: object) -> Table:
    parsed = _parsed(value)
    if not isinstance(parsed, dict):
        raise UnfitValue(value, "an object of OpenVINO's properties")
    properties = cast("Table", parsed)
    for name, each in properties.items():
        if not isinstance(each, str | int | float | bool):
            raise UnfitValue(each, "text, a number, true or false", name)
    return {"properties": properties}


def _shapes(value: object) -> Table:
    return {"shapes": {name: _shape(each) for name, each in _by_input(value, _SHAPE).items()}}


def _shape(value: object) -> list[int | str] | str:
    if value == "auto":
        return ANY
    written = re.fullmatch(r"\s*[(\[](.*)[)\]]\s*", value) if isinstance(value, str) else None
    if written is None:
        raise UnfitValue(value, _SHAPE)
    lengths = [length.strip() for length in written[1].split(",") if length.strip()]
    return [_dimension(length, value, _SHAPE) for length in lengths]


def _batch(value: object) -> Table:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise UnfitValue(value, _BATCH)
    if value == 0:
        return {}
    return {"batch": -1 if value == "auto" else _dimension(str(value), value, _BATCH)}


def _dimension(length: str, value: object, expected: str) -> int | str:
    found = re.fullmatch(r"(-1|[0-9]{1,9})|([0-9]{1,9}):([0-9]{1,9})", length)
    if found is None or (found[2] and int(found[2]) > int(found[3])):
        raise UnfitValue(value, expected)
    return int(length) if found[1] else f"{int(found[2])}..{int(found[3])}"


def _layouts(value: object) -> Table:
    return {"preprocessing": {name: _layout(each) for name, each in _by_input(value, _LAYOUT).items()}}


def _layout(value: object) -> Table:
    tensor, colon, model = text(value, _LAYOUT).partition(":")
    if not tensor or (colon and not model):
        raise UnfitValue(value, _LAYOUT)
    return {"layout": tensor, "model_layout": model or tensor}


def _colors(value: object) -> Table:
    expected = f"one of {', '.join([*_COLORS, *COLORS[:5]])}, or the callers' and the model's such as BGR:RGB"
    names = [_COLORS.get(name, name) for name in text(value, expected).split(":")]
    if len(names) > 2 or not all(name in COLORS for name in names):
        raise UnfitValue(value, expected)
    return {"preprocessing": {ONLY_INPUT: {"color": names[0], "model_color": names[-1]}}}


def _precision(value: object) -> Table:
    expected = "a type such as FP32, or the callers' and the model's such as UINT8:FP32"
    names = text(value, expected).split(":")
    # The model's own is what it is: OpenVINO converts to it.
    row = BY_OIP.get(names[0]) or BY_NAME.get(names[0].lower())
    if len(names) > 2 or row is None:
        raise UnfitValue(value, expected)
    return {"preprocessing": {ONLY_INPUT: {"element_type": row.name}}}


def _numbers(setting: str, fits: Callable[[object], bool], one: str) -> Callable[[object], Table]:
    expected = f"{one}, or one for each channel such as [123.7,116.3,103.5]"

    def read(value: object) -> Table:
        written = re.sub(r"^\((.*)\)$", r"[\1]", value.strip()) if isinstance(value, str) else value
        parsed = _parsed(written)
        numbers = cast("list[object]", parsed) if isinstance(parsed, list) else [parsed]
        if not numbers or not all(map(fits, numbers)):
            raise UnfitValue(value, expected)
        return {"preprocessing": {ONLY_INPUT: {setting: numbers}}}

    return read


def _cleans_up(value: object) -> Table:
    # Without cleaning up, a sequence's states stay until it ends.
    return {} if switch(value) else {"sequence_idle_s": LARGEST}


def _accepted_switch(value: object) -> Table:
    switch(value)
    return {}


def _not_true(reason: str) -> Callable[[object], Table]:
    def read(value: object) -> Table:
        if value is not False:
            raise UnfitValue(value, f"false: {reason}")
        return {}

    return read


def _not_offered(reason: str) -> Callable[[object], Table]:
    def read(value: object) -> Table:
        raise UnfitValue(value, f"nothing: {reason}")

    return read


def _by_input(value: object, expected: str) -> Table:
    """Give what is said of each input by its name, or of the only one."""
    parsed = _parsed(value)
    if isinstance(parsed, dict):
        if not parsed:
            raise UnfitValue(value, expected)
        return cast("Table", parsed)
    return {ONLY_INPUT: text(value, expected)}


def _parsed(value: object) -> object:
    """Read a value that is JSON in a text, as on a command line; leave other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (RecursionError, ValueError):
        return value


_READERS: Mapping[str, Callable[[object], Table]] = {
    "name": _nothing,
    "base_path": _nothing,
    "nireq": _slots,
    "target_device": lambda value: {"device": text(value, "a device such as CPU or AUTO:GPU,CPU")},
    "plugin_config": _properties,
    "model_version_policy": _version_policy,
    "shape": _shapes,
    "batch_size": _batch,
    "layout": _layouts,
    "mean": _numbers("mean", is_mean, MEAN),
    "scale": _numbers("scale", is_scale, SCALE),
    "color_format": _colors,
    "precision": _precision,
    "stateful": _accepted_switch,
    "max_sequence_number": lambda value: {"max_sequences": whole(value, 1)},
    "idle_sequence_cleanup": _cleans_up,
    "low_latency_transformation": _not_true("models keep the states that they have in their files"),
    "allow_cache": _accepted_switch,
    "custom_loader_options": _not_offered("models are read from files alone"),
}
"""The fields there are. `stateful` is seen from the model itself, and --cache-dir is for all models."""
