"""What each field of OpenVINO Model Server's configuration becomes, and what is said of one that becomes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferwire_server.repository.model_server_fields import FIELDS, translate
from inferwire_server.repository.model_settings import ModelSettings, settings_from
from inferwire_server.repository.setting_layers import Layer
from inferwire_server.repository.setting_values import LARGEST


def nameless(**settings: object) -> dict[str, Any]:
    return {"preprocessing": {"": settings}}


@pytest.mark.parametrize(
    ("config", "table"),
    [
        ({"name": "m", "base_path": "/models/m"}, {}),
        ({"nireq": 4}, {"slots": 4}),
        ({"nireq": 0}, {}),
        ({"target_device": "AUTO:GPU,CPU"}, {"device": "AUTO:GPU,CPU"}),
        ({"plugin_config": {"NUM_STREAMS": 4}}, {"properties": {"NUM_STREAMS": 4}}),
        ({"plugin_config": '{"PERFORMANCE_HINT": "LATENCY"}'}, {"properties": {"PERFORMANCE_HINT": "LATENCY"}}),
        ({"model_version_policy": {"all": {}}}, {"version_policy": "all"}),
        ({"model_version_policy": {"latest": {}}}, {"version_policy": "latest"}),
        ({"model_version_policy": {"latest": {"num_versions": 2}}}, {"version_policy": "latest:2"}),
        ({"model_version_policy": {"specific": {"versions": [1, 3]}}}, {"version_policy": "1,3"}),
        ({"shape": "(1,3,200:500,-1)"}, {"shapes": {"": [1, 3, "200..500", -1]}}),
        ({"shape": " [ 1, 8 ] "}, {"shapes": {"": [1, 8]}}),
        ({"shape": "()"}, {"shapes": {"": []}}),
        ({"shape": {"a": "(1,2)", "b": "(3)"}}, {"shapes": {"a": [1, 2], "b": [3]}}),
        ({"shape": '{"a": "(1,2)"}'}, {"shapes": {"a": [1, 2]}}),
        ({"shape": "auto"}, {"shapes": {"": "any"}}),
        ({"shape": {"a": "auto", "b": "(3)"}}, {"shapes": {"a": "any", "b": [3]}}),
        ({"batch_size": 8}, {"batch": 8}),
        ({"batch_size": "8"}, {"batch": 8}),
        ({"batch_size": "1:8"}, {"batch": "1..8"}),
        ({"batch_size": "auto"}, {"batch": -1}),
        ({"batch_size": -1}, {"batch": -1}),
        ({"batch_size": 0}, {}),
        ({"batch_size": 8, "shape": "(1,2)"}, {"shapes": {"": [1, 2]}}),
        ({"layout": "NHWC:NCHW"}, nameless(layout="NHWC", model_layout="NCHW")),
        ({"layout": "NCHW"}, nameless(layout="NCHW", model_layout="NCHW")),
        ({"layout": {"x": "NHWC:NCHW"}}, {"preprocessing": {"x": {"layout": "NHWC", "model_layout": "NCHW"}}}),
        ({"mean": 127.5}, nameless(mean=[127.5])),
        ({"mean": "0"}, nameless(mean=[0])),
        ({"mean": "[123.675,116.28,103.53]"}, nameless(mean=[123.675, 116.28, 103.53])),
        ({"scale": "(58.4, 57.1, 57.4)"}, nameless(scale=[58.4, 57.1, 57.4])),
        ({"scale": [1, 2, 3]}, nameless(scale=[1, 2, 3])),
        ({"color_format": "BGR:RGB"}, nameless(color="BGR", model_color="RGB")),
        ({"color_format": "RGB"}, nameless(color="RGB", model_color="RGB")),
        ({"color_format": "NV12:BGR"}, nameless(color="NV12_SINGLE_PLANE", model_color="BGR")),
        ({"precision": "UINT8:FP32"}, nameless(element_type="u8")),
        ({"precision": "U8"}, nameless(element_type="u8")),
        ({"stateful": True, "low_latency_transformation": False, "allow_cache": True}, {}),
        ({"max_sequence_number": 500}, {"max_sequences": 500}),
        ({"idle_sequence_cleanup": False}, {"sequence_idle_s": LARGEST}),
        ({"idle_sequence_cleanup": True}, {}),
        (
            {"layout": {"x": "NHWC:NCHW"}, "mean": 1, "scale": 2},
            {"preprocessing": {"x": {"layout": "NHWC", "model_layout": "NCHW", "mean": [1], "scale": [2]}}},
        ),
        (
            {"layout": "NHWC:NCHW", "mean": 1},
            nameless(layout="NHWC", model_layout="NCHW", mean=[1]),
        ),
    ],
)
def test_a_field_becomes_a_setting_that_is_one(config: dict[str, Any], table: dict[str, Any]) -> None:
    assert translate(config) == (table, [])
    assert table.keys() <= FIELDS.keys()
    assert isinstance(settings_from([Layer("config.json", table)], Path("m")), ModelSettings)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"nirqe": 4}, "nirqe is no field of a model"),
        ({"nireq": -1}, "nireq is -1, expected a whole number from 0 up to 65536"),
        ({"nireq": "4"}, 'nireq is "4", expected a whole number from 0 up'),
        ({"target_device": ""}, 'target_device is "", expected a device such as CPU'),
        ({"plugin_config": "fast"}, 'plugin_config is "fast", expected an object'),
        ({"plugin_config": {"A": [1]}}, "plugin_config.A is [1], expected text, a number"),
        ({"model_version_policy": {"newest": {}}}, 'model_version_policy is {"newest": {}}, expected one of {"latest"'),
        ({"model_version_policy": {"latest": {"num_versions": 0}}}, 'model_version_policy is {"latest"'),
        ({"model_version_policy": {"latest": {"versions": [1]}}}, 'model_version_policy is {"latest"'),
        ({"model_version_policy": {"latest": 2}}, 'model_version_policy is {"latest": 2}'),
        ({"model_version_policy": {"specific": {"versions": []}}}, 'model_version_policy is {"specific"'),
        ({"model_version_policy": {"specific": {"versions": [True]}}}, 'model_version_policy is {"specific"'),
        ({"model_version_policy": {"all": {}, "latest": {}}}, 'model_version_policy is {"all"'),
        ({"shape": "any"}, 'shape is "any", expected dimensions such as (1,3,224,224)'),
        ({"shape": "(1,500:200)"}, 'shape is "(1,500:200)", expected dimensions'),
        ({"shape": {"x": 5}}, "shape is 5, expected dimensions"),
        ({"shape": {}}, "shape is {}, expected dimensions"),
        ({"shape": [1, 2]}, "shape is [1, 2], expected dimensions"),
        ({"batch_size": True}, "batch_size is true, expected a number of rows"),
        ({"batch_size": "many"}, 'batch_size is "many", expected a number of rows'),
        ({"layout": "NHWC:"}, 'layout is "NHWC:", expected a layout such as NCHW'),
        ({"mean": "[a,b]"}, 'mean is "[a,b]", expected a finite number that f32 holds, or one for each channel'),
        ({"mean": []}, "mean is [], expected a finite number"),
        ({"mean": "[" * 100_000}, "mean is "),
        ({"mean": "Infinity"}, 'mean is "Infinity", expected a finite number'),
        ({"scale": float("nan")}, "scale is NaN, expected a finite number that f32 holds, other than 0, or one for"),
        (
            {"scale": [1, 0]},
            "scale is [1, 0], expected a finite number that f32 holds, other than 0, or one for each channel such as [",
        ),
        ({"color_format": "CMYK"}, 'color_format is "CMYK", expected one of NV12, I420, RGB'),
        ({"color_format": "RGB:BGR:RGB"}, 'color_format is "RGB:BGR:RGB", expected'),
        ({"precision": "FP99"}, 'precision is "FP99", expected a type such as FP32'),
        ({"stateful": "yes"}, 'stateful is "yes", expected true or false'),
        ({"max_sequence_number": 0}, "max_sequence_number is 0, expected a whole number from 1 up"),
        ({"low_latency_transformation": True}, "low_latency_transformation is true, expected false: models keep"),
        ({"custom_loader_options": {"a": "b"}}, 'custom_loader_options is {"a": "b"}, expected nothing: models are'),
        (
            {"layout": {"a": "NHWC", "b": "NC"}, "mean": 1},
            "mean is for a model with one input, and layout names a, b",
        ),
    ],
)
def test_what_is_no_setting_is_named(config: dict[str, Any], problem: str) -> None:
    _, problems = translate(config)
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_all_that_is_wrong_is_named() -> None:
    _, problems = translate({"nireq": -1, "nirqe": 4, "target_device": "CPU", "shape": "all"})
    assert [problem.split()[0] for problem in problems] == ["nireq", "nirqe", "shape"]
