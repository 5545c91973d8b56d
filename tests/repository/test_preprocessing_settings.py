"""The `[preprocessing]` tables of a model's settings: what they may say, and what is recorded for OpenVINO."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.preprocessing import Call
from inferwire_proto.properties import EnumValue
from inferwire_server.core.model_options import ModelOptions, Pictures, Preprocessing
from inferwire_server.errors import ServingError
from inferwire_server.repository.entries import Entry
from inferwire_server.repository.model_settings import ModelSettings

MEAN = "a finite number that f32 holds"


def settings_of(folder: Path, table: str) -> ModelSettings:
    path = folder / "m" / "inferwire.toml"
    path.parent.mkdir()
    path.write_text(f"[preprocessing.x]\n{table}")
    return Entry("m", "1", path.parent, settings_file=path).settings()


def call(part: str, method: str, *arguments: object) -> Call:
    return Call("input", "x", part, method, arguments)  # pyright: ignore[reportArgumentType]


PIXELS = """
element_type = "u8"
layout = "NHWC"
color = "BGR"
model_layout = "NCHW"
model_color = "RGB"
resize = "linear"
mean = [1, 2.5, 3]
scale = 128
"""


def test_steps_for_pixels_are_recorded_in_the_documented_order(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, PIXELS)
    source = settings.source(Path("model.xml"))
    assert source.preprocessing == (
        Preprocessing(
            (
                call("tensor", "set_element_type", BY_NAME["u8"]),
                call("tensor", "set_layout", "NHWC"),
                call("tensor", "set_color_format", EnumValue("preprocess.ColorFormat", "BGR")),
                call("tensor", "set_spatial_dynamic_shape"),
                call("model", "set_layout", "NCHW"),
                call("preprocess", "convert_element_type", BY_NAME["f32"]),
                call("preprocess", "convert_color", EnumValue("preprocess.ColorFormat", "RGB")),
                call("preprocess", "resize", EnumValue("preprocess.ResizeAlgorithm", "RESIZE_LINEAR")),
                call("preprocess", "mean", [1.0, 2.5, 3.0]),
                call("preprocess", "scale", 128.0),
            ),
            setting=("preprocessing", "x"),
        ),
    )
    assert settings.options("m", ModelOptions("")).pictures == {}


def test_encoded_pictures_are_rgb_pixels_that_the_decoder_resizes(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, 'encoded = true\nresize = "nearest"\nmodel_color = "BGR"\nmax_pixels = 9')
    (recorded,) = settings.source(Path("model.xml")).preprocessing
    assert recorded.calls == (
        call("tensor", "set_element_type", BY_NAME["u8"]),
        call("tensor", "set_layout", "NHWC"),
        call("tensor", "set_color_format", EnumValue("preprocess.ColorFormat", "RGB")),
        call("preprocess", "convert_element_type", BY_NAME["f32"]),
        call("preprocess", "convert_color", EnumValue("preprocess.ColorFormat", "BGR")),
    )
    assert settings.options("m", ModelOptions("")).pictures == {"x": Pictures("nearest", 9)}


def test_colours_that_are_the_models_are_left_as_they_are(tmp_path: Path) -> None:
    (recorded,) = settings_of(tmp_path, 'color = "BGR"\nmodel_color = "BGR"').source(Path("m")).preprocessing
    assert [each.method for each in recorded.calls] == ["set_color_format"]


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ('encoded = "yes"', 'preprocessing.x.encoded is "yes", expected true or false'),
        ('element_type = "u9"', 'preprocessing.x.element_type is "u9", expected an element type such as u8 or f32'),
        ("layout = 4", "preprocessing.x.layout is 4, expected a layout such as NHWC"),
        ('color = "rgb"', 'preprocessing.x.color is "rgb", expected RGB, BGR, RGBX, BGRX, GRAY, NV12_SINGLE_PLANE or '),
        ('resize = "lanczos"', 'preprocessing.x.resize is "lanczos", expected linear, cubic, nearest, bilinear_pillow'),
        ("mean = []", f"preprocessing.x.mean is [], expected {MEAN}, or a list with one for each channel"),
        ("mean = [1, true]", f"preprocessing.x.mean is [1, true], expected {MEAN}"),
        ("mean = nan", f"preprocessing.x.mean is NaN, expected {MEAN}"),
        ("mean = -inf", f"preprocessing.x.mean is -Infinity, expected {MEAN}"),
        ("mean = 1e39", f"preprocessing.x.mean is 1e+39, expected {MEAN}"),
        (f"mean = {10**400}", f"preprocessing.x.mean is {10**400}, expected {MEAN}"),
        ("scale = [1, 0]", f"preprocessing.x.scale is [1, 0], expected {MEAN}, other than 0, or a list with one for"),
        ("scale = nan", f"preprocessing.x.scale is NaN, expected {MEAN}, other than 0"),
        ("scale = -1e-40", f"preprocessing.x.scale is -1e-40, expected {MEAN}, other than 0"),
        ("crop = 1", "preprocessing.x.crop is 1, expected no such setting: there are encoded, max_pixels, "),
        ("max_pixels = 9", "preprocessing.x.max_pixels is 9, expected it only beside encoded = true"),
        ("encoded = true\nmax_pixels = 0", "preprocessing.x.max_pixels is 0, expected a whole number from 1 up"),
        ('encoded = true\nlayout = "NCHW"', 'preprocessing.x.layout is "NCHW", expected none: encoded pictures are '),
        (
            'encoded = true\nresize = "linear"',
            'preprocessing.x.resize is "linear", expected nearest, bilinear_pillow or bicubic_pillow for encoded pic',
        ),
    ],
)
def test_a_broken_table_names_the_setting(tmp_path: Path, table: str, sentence: str) -> None:
    with pytest.raises(ServingError) as refused:
        settings_of(tmp_path, table)
    assert refused.value.message.startswith(f"m/inferwire.toml: {sentence}")


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "inferwire.toml"
    path.write_text("[preprocessing]\nx = 3")
    with pytest.raises(ServingError, match=r"preprocessing\.x is 3, expected a table of settings"):
        Entry("m", "1", path.parent, settings_file=path).settings()
