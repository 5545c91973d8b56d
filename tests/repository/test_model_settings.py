"""A model's settings file: what it may say, and what is said of one that is broken."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from inferwire_proto.errors import Code
from inferwire_server.core.batch_options import BatchOptions
from inferwire_server.core.model_options import ModelOptions
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.specs import Dimension
from inferwire_server.core.versions import Latest
from inferwire_server.errors import ServingError, UnfitSetting
from inferwire_server.repository.entries import Entry
from inferwire_server.repository.model_settings import ModelSettings
from inferwire_server.repository.setting_layers import Layer

EVERYTHING = """
device = "HETERO:CPU"
precision = "f32"
slots = 3
version_policy = "latest:2"
max_batch = 16
max_batch_delay_us = 250
preferred_batches = [4, 8]
priority = -4
time_limit_s = 2.5
weight = 2.5
batch = "1..8"
labels = "classes.json"
file = "net.onnx"
idle_unload_s = 60

[properties]
NUM_STREAMS = 2
ENABLE_CPU_PINNING = false
DEVICE_PROPERTIES = { CPU = { INFERENCE_NUM_THREADS = 1 } }

[shapes]
x = [1, -1, "2..8", "3.."]
scalar = []
free = "any"

[warm_up]
x = [1, 2, 4, 8]
"""


def settings_of(folder: Path, text: str) -> ModelSettings:
    path = folder / "m" / "inferwire.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    (path.parent / "classes.json").write_text('["a", "b"]')
    return Entry("m", "1", path.parent, settings_file=path).settings()


def test_every_setting_is_read(tmp_path: Path) -> None:
    assert settings_of(tmp_path, EVERYTHING) == ModelSettings(
        device="HETERO:CPU",
        properties={
            "NUM_STREAMS": 2,
            "ENABLE_CPU_PINNING": False,
            "DEVICE_PROPERTIES": {"CPU": {"INFERENCE_NUM_THREADS": 1}},
        },
        precision="f32",
        slots=3,
        version_policy=Latest(2),
        batches=BatchOptions(16, 250, (4, 8)),
        priority=-4,
        time_limit_s=2.5,
        weight=2.5,
        batch=Dimension(1, 8),
        labels=("a", "b"),
        label_file="classes.json",
        file="net.onnx",
        idle_unload_s=60.0,
        shapes={
            "x": (Dimension(1, 1), Dimension(0, None), Dimension(2, 8), Dimension(3, None)),
            "scalar": (),
            "free": "any",
        },
        warm_up={"x": (1, 2, 4, 8)},
    )


def test_inputs_of_any_shape_are_told_apart_from_those_of_one(tmp_path: Path) -> None:
    source = settings_of(tmp_path, '[shapes]\nx = [1]\ny = "any"').source(tmp_path / "model.xml")
    assert (source.reshape, source.free) == ({"x": (Dimension(1, 1),)}, {"y"})


def test_what_a_model_does_not_say_is_as_for_all(tmp_path: Path) -> None:
    defaults = ModelOptions("", "GPU", {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}, 7)
    assert settings_of(tmp_path, "").options("m", defaults) == ModelOptions("m", "GPU", defaults.properties, 7)
    assert settings_of(tmp_path, EVERYTHING).options("m", defaults) == ModelOptions(
        "m",
        "HETERO:CPU",
        {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 2,
            "ENABLE_CPU_PINNING": False,
            "DEVICE_PROPERTIES": {"CPU": {"INFERENCE_NUM_THREADS": 1}},
            "INFERENCE_PRECISION_HINT": "f32",
        },
        3,
        batching=Batching(16, 0.00025, (4, 8)),
        priority=-4,
        time_limit_s=2.5,
        labels=("a", "b"),
        label_file="classes.json",
        idle_unload_s=60.0,
        warm_up={"x": (1, 2, 4, 8)},
        weight=2.5,
    )


NAMES = (
    "device, properties, precision, slots, version_policy, max_batch, max_batch_delay_us, preferred_batches, priority, "
    "time_limit_s"
)
SHAPE = 'expected a list of dimensions: lengths up to 2147483647, -1 for any, or bounds such as "1..8"; or "any" for'
WEIGHT = "expected a number from 0.001 up to 1000"
SIZES = "expected a list of whole numbers from 1 up to 2147483647"
TWICE = "are both set, expected one of them: they say the same"
SECONDS = "expected a number above 0, at most 2147483647"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("slots = 0", "slots is 0, expected a whole number from 1 up"),
        ("slots = true", "slots is true, expected a whole number from 1 up"),
        ('slots = "2"', 'slots is "2", expected a whole number from 1 up'),
        ("device = 1", "device is 1, expected a device such as CPU or AUTO:GPU,CPU"),
        ('device = ""', 'device is "", expected a device such as CPU or AUTO:GPU,CPU'),
        ('precision = "f64"', 'precision is "f64", expected f32, f16 or bf16'),
        ("precision = []", "precision is [], expected f32, f16 or bf16"),
        (
            'version_policy = "new"',
            'version_policy is "new", expected a policy: "latest", "latest:2", "all", or versions such as "1,3"',
        ),
        (
            "version_policy = 1",
            'version_policy is 1, expected a policy: "latest", "latest:2", "all", or versions such as "1,3"',
        ),
        ("slots = 65537", "slots is 65537, expected a whole number from 1 up to 65536"),
        ("priority = 1.5", "priority is 1.5, expected a whole number from -2147483647 up to 2147483647"),
        ("max_batch = -1", "max_batch is -1, expected a whole number from 0 up to 2147483647"),
        ('max_batch = "16"', 'max_batch is "16", expected a whole number from 0 up to 2147483647'),
        ("max_batch_delay_us = 0.5", "max_batch_delay_us is 0.5, expected a whole number from 0 up to 2147483647"),
        ("preferred_batches = 4", f"preferred_batches is 4, {SIZES}"),
        ("preferred_batches = [4, 0]", f"preferred_batches is [4, 0], {SIZES}"),
        (
            '[properties]\nINFERWIRE_MAX_BATCH = "many"',
            "property INFERWIRE_MAX_BATCH is 'many', expected a whole number from 0 up to 2147483647",
        ),
        ("[properties]\nINFERWIRE_BATCH = 4", "property INFERWIRE_BATCH is not known, expected one of INFERWIRE_MAX_"),
        (
            "max_batch = 4\n[properties]\nINFERWIRE_MAX_BATCH = 8",
            f"max_batch and properties.INFERWIRE_MAX_BATCH {TWICE}",
        ),
        ("properties = 1", "properties is 1, expected a table of OpenVINO's properties"),
        (
            "[properties]\nX = 2020-01-01",
            'properties.X is "2020-01-01", expected text, a number, true or false, or a list or table of them',
        ),
        ("shapes = [1]", "shapes is [1], expected a table of inputs' names and shapes"),
        ("[shapes]\nx = 1", f"shapes.x is 1, {SHAPE}"),
        ("[shapes]\nx = [-2]", f"shapes.x is [-2], {SHAPE}"),
        ("[shapes]\nx = [true]", f"shapes.x is [true], {SHAPE}"),
        ("warm_up = false", "warm_up is false, expected a table of inputs' names and shapes"),
        ("[warm_up]\nx = 1", "warm_up.x is 1, expected a list of lengths from 0 up"),
        ("[warm_up]\nx = [-1]", "warm_up.x is [-1], expected a list of lengths from 0 up"),
        ("[warm_up]\nx = [true]", "warm_up.x is [true], expected a list of lengths from 0 up"),
        (
            "[warm_up]\nx = [2147483648]",
            "warm_up.x is [2147483648], expected a list of lengths from 0 up to 2147483647",
        ),
        (
            "batch = true",
            'batch is true, expected a number of rows up to 2147483647, -1 for any, or bounds such as "1..8"',
        ),
        ('[shapes]\nx = [1, "1..2147483648"]', f'shapes.x is [1, "1..2147483648"], {SHAPE}'),
        ('[shapes]\nx = ["2147483648.."]', f'shapes.x is ["2147483648.."], {SHAPE}'),
        ('[shapes]\nx = [1, "8..1"]', f'shapes.x is [1, "8..1"], {SHAPE}'),
        ("weight = 0", f"weight is 0, {WEIGHT}"),
        ("weight = 1e-16", f"weight is 1e-16, {WEIGHT}"),
        ("weight = 1001", f"weight is 1001, {WEIGHT}"),
        ('weight = "2"', f'weight is "2", {WEIGHT}'),
        ("weight = nan", f"weight is NaN, {WEIGHT}"),
        ("sequence_idle_s = 1e11", f"sequence_idle_s is 100000000000.0, {SECONDS}"),
        ("idle_unload_s = 0", f"idle_unload_s is 0, {SECONDS}"),
        ("idle_unload_s = true", f"idle_unload_s is true, {SECONDS}"),
        ("slots = 1\nslot = 1", f"'slot' is no setting (did you mean 'slots'?), expected {NAMES}"),
        ("colour = 1", f"'colour' is no setting, expected {NAMES}"),
        ("[properties.A]\nB = 12:00:00", 'properties.A.B is "12:00:00", expected text'),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ServingError) as caught:
        settings_of(tmp_path, text)
    assert caught.value.code is Code.MODEL_FAILED
    assert caught.value.message.startswith(f"m/inferwire.toml: {sentence}")


def test_all_that_is_wrong_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ServingError) as caught:
        settings_of(tmp_path, "slots = 0\nslot = 1\nplots = 1\n[warm_up]\nx = 1\ny = 2")
    unknown, others = caught.value.message.split(", expected device, ")
    meant = "is no setting (did you mean 'slots'?)"
    assert unknown == f"m/inferwire.toml: 'slot' {meant}; 'plots' {meant}"
    lengths = "expected a list of lengths from 0 up to 2147483647"
    assert others.split("; ", 1)[1] == (
        f"slots is 0, expected a whole number from 1 up to 65536; warm_up.x is 1, {lengths}; warm_up.y is 2, {lengths}"
    )


@pytest.mark.parametrize("content", [b"slots =", b"\xff", b"a = 1\na = 2"])
def test_what_is_no_toml_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "inferwire.toml"
    path.write_bytes(content)
    with pytest.raises(ServingError, match=r"inferwire\.toml cannot be read: "):
        Entry("m", "1", path.parent, settings_file=path).settings()


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_said_to_be_no_settings_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "inferwire.toml"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(ServingError, match=rf"inferwire\.toml cannot be read: it is a {kind}, expected a file$"):
        Entry("m", "1", path.parent, settings_file=path).settings()


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "[properties]\n" + ".".join("a" * 5_000) + " = 1"])
def test_what_is_nested_too_deeply_is_said_to_be_so(tmp_path: Path, text: str) -> None:
    with pytest.raises(ServingError, match=r"inferwire\.toml:? cannot be read: it is nested too deeply"):
        settings_of(tmp_path, text)


def test_a_number_of_more_digits_than_are_written_is_refused_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(ServingError, match="slots is too long to be shown, expected a whole number"):
        settings_of(tmp_path, f"slots = 0x{'f' * 5_000}")


def batching_of(folder: Path, text: str, below: BatchOptions, *above: Mapping[str, object]) -> Batching | None:
    settings_of(folder, text)
    entry = Entry("m", "1", folder / "m", settings_file=folder / "m/inferwire.toml")
    over = tuple(Layer("a load", table) for table in above)
    return replace(entry, overrides=over).settings().options("m", ModelOptions(""), below).batching


def test_a_model_is_batched_by_a_property_of_its_own(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, '[properties]\nA = 1\nINFERWIRE_MAX_BATCH = 64\nINFERWIRE_PREFERRED_BATCHES = "8"')
    assert settings == ModelSettings(properties={"A": 1}, batches=BatchOptions(64, None, (8,)))


def test_what_a_model_does_not_say_of_batches_is_as_for_all(tmp_path: Path) -> None:
    assert batching_of(tmp_path, "", BatchOptions(8, 100)) == Batching(8, 0.0001)
    assert batching_of(tmp_path, "max_batch = 0", BatchOptions(8, 100)) is None
    assert batching_of(tmp_path, "max_batch = 4", BatchOptions(8, 100)) == Batching(4, 0.0001)


@pytest.mark.parametrize("text", ["max_batch = 64", "[properties]\nINFERWIRE_MAX_BATCH = 64"])
@pytest.mark.parametrize("load", [{"max_batch": 16}, {"properties": {"INFERWIRE_MAX_BATCH": "16"}}])
def test_a_load_wins_over_a_file_in_whichever_form_either_says_it(
    tmp_path: Path, text: str, load: Mapping[str, object]
) -> None:
    assert batching_of(tmp_path, text, BatchOptions(), load) == Batching(16)
    assert batching_of(tmp_path, text, BatchOptions(), {"max_batch_delay_us": 100}) == Batching(64, 0.0001)


@pytest.mark.parametrize(
    ("text", "below", "batching"),
    [
        ("", BatchOptions(None, 500, (4,)), None),
        ("max_batch = 4", BatchOptions(None, 500, (2, 8)), Batching(4, 0.0005, (2,))),
        ("max_batch = 4", BatchOptions(16, 500, (8, 16)), Batching(4, 0.0005)),
        ("max_batch_delay_us = 100", BatchOptions(8), Batching(8, 0.0001)),
    ],
)
def test_what_others_are_batched_by_counts_where_it_applies(
    tmp_path: Path, text: str, below: BatchOptions, batching: Batching | None
) -> None:
    assert batching_of(tmp_path, text, below) == batching


def test_what_a_file_says_of_batches_counts_where_it_applies_to_a_load(tmp_path: Path) -> None:
    file = "max_batch = 16\npreferred_batches = [4, 16]\nmax_batch_delay_us = 100"
    assert batching_of(tmp_path, file, BatchOptions(), {"max_batch": 8}) == Batching(8, 0.0001, (4,))
    assert batching_of(tmp_path, file, BatchOptions(), {"preferred_batches": [2]}) == Batching(16, 0.0001, (2,))
    delayed = batching_of(tmp_path, "max_batch_delay_us = 100", BatchOptions(8), {"preferred_batches": [2]})
    assert delayed == Batching(8, 0.0001, (2,))


TOO_LARGE = "a preferred batch is 8 rows, expected 1 to 4"
NO_BATCH = (
    "there is no max_batch (INFERWIRE_MAX_BATCH; in Triton's file max_batch_size), the most rows of one inference"
)


@pytest.mark.parametrize(
    ("text", "load", "sentence"),
    [
        ("max_batch_delay_us = 100", {}, f"m/inferwire.toml: max_batch_delay_us is 100: {NO_BATCH}"),
        ("", {"preferred_batches": [4]}, f"a load: preferred_batches is [4]: {NO_BATCH}"),
        ("max_batch = 4\npreferred_batches = [8]", {}, f"m/inferwire.toml: preferred_batches is [8]: {TOO_LARGE}"),
        ("max_batch = 4", {"preferred_batches": [8]}, f"a load: preferred_batches is [8]: {TOO_LARGE}"),
        (
            "max_batch = 4\n[properties]\nINFERWIRE_PREFERRED_BATCHES = 8",
            {},
            f"m/inferwire.toml: properties.INFERWIRE_PREFERRED_BATCHES is 8: {TOO_LARGE}",
        ),
        (
            "max_batch = 4\n[properties]\nINFERWIRE_PREFERRED_BATCHES = 4",
            {"preferred_batches": [8]},
            f"a load: preferred_batches is [8]: {TOO_LARGE}",
        ),
    ],
)
def test_batches_that_contradict_themselves_are_refused_by_where_they_are_said(
    tmp_path: Path, text: str, load: Mapping[str, object], sentence: str
) -> None:
    settings_of(tmp_path, text)
    file = tmp_path / "m/inferwire.toml"
    entry = Entry("m", "1", file.parent, settings_file=file, overrides=(Layer("a load", load),))
    with pytest.raises(UnfitSetting) as caught:
        entry.settings().options("m", ModelOptions(""))
    told = entry.why_unfit(caught.value, ModelOptions("", "CPU"))
    assert (told.code, told.message) == (Code.MODEL_FAILED, sentence)
