"""What a `config.pbtxt` says becomes settings, fails the model in a sentence, or is known to change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.stated_ports import StatedPort, StatedPorts
from inferwire_server.errors import ServingError
from inferwire_server.open_inference.config_file import FileConfig, read_config_file
from inferwire_server.open_inference.model_config import FIELDS, OFFERED
from inferwire_server.open_inference.stubs import model_config_pb2 as pb

OPENVINO = """
name: "m"
backend: "openvino"
max_batch_size: 16
input [
  { name: "x" data_type: TYPE_FP32 dims: [ 4 ] },  # the batch is left out
  { name: "ids" data_type: TYPE_STRING dims: -1 }
]
output [{ name: "y" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "labels.txt" }]
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 500 }
instance_group [{ count: 2 kind: KIND_CPU }]
version_policy: { specific { versions: [ 1, 3 ] } }
parameters: { key: "PERFORMANCE_HINT" value: { string_value: "LATENCY" } }
parameters: { key: "TARGET_DEVICE" value: { string_value: "AUTO:GPU,CPU" } }
"""


def read(text: str) -> FileConfig:
    return read_config_file(text, "m", "m/config.pbtxt")


def parameters(**values: str) -> str:
    return "\n".join(f'parameters {{ key: "{name}" value {{ string_value: "{v}" }} }}' for name, v in values.items())


def failure(text: str) -> str:
    with pytest.raises(ServingError) as caught:
        read(text)
    assert caught.value.code is Code.MODEL_FAILED
    return caught.value.message


def test_a_file_as_triton_s_users_have_it() -> None:
    found = read(OPENVINO)
    assert found.settings == {
        "device": "AUTO:GPU,CPU",
        "slots": 2,
        "version_policy": "1,3",
        "properties": {"PERFORMANCE_HINT": "LATENCY"},
        "max_batch": 16,
        "max_batch_delay_us": 500,
        "preferred_batches": [4, 8],
        "labels": "labels.txt",
    }
    x, ids = StatedPort(BY_NAME["f32"], (4,)), StatedPort(BY_NAME["string"], (-1,))
    y = StatedPort(BY_NAME["f32"], (3,))
    assert found.stated == StatedPorts("m/config.pbtxt", {"x": x, "ids": ids}, {"y": y}, 16)
    assert found.unused == ()


SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    ('platform: "onnxruntime_onnx"', {}),
    ('platform: "tensorflow_savedmodel" backend: "tensorflow"', {}),
    ("max_batch_size: 0", {"max_batch": 0}),
    ("instance_group [{ kind: KIND_GPU }]", {"device": "GPU"}),
    ("instance_group [{ kind: KIND_AUTO count: 3 }]", {"slots": 3}),
    ("sequence_batching { direct { } max_sequence_idle_microseconds: 5000000 }", {"sequence_idle_s": 5.0}),
    ("sequence_batching { oldest { max_candidate_sequences: 7 } }", {"max_sequences": 7}),
    ('default_model_filename: "net.xml"', {"file": "net.xml"}),
    (parameters(HINT_BF16="YES"), {"properties": {"INFERENCE_PRECISION_HINT": "bf16"}}),
    ('max_batch_size: 8 input { name: "x" dims: [ 2, 4 ] }', {"max_batch": 8}),
    (
        f'max_batch_size: 8 input {{ name: "x" dims: [ 2, 4 ] }} {parameters(RESHAPE_IO_LAYERS="YES")}',
        {"max_batch": 8, "shapes": {"x": [-1, 2, 4]}},
    ),
    (f'input {{ name: "x" dims: 4 }} {parameters(RESHAPE_IO_LAYERS="NO")}', {}),
    (f'backend: "onnxruntime" {parameters(intra_op_thread_count="2")}', {}),
    (
        'model_warmup [{ name: "a" count: 3 inputs { key: "x" value { dims: 4 random_data: true } } }]',
        {"warm_up": {"x": [4]}},
    ),
    (
        'max_batch_size: 8 model_warmup { batch_size: 2 inputs { key: "x" value { dims: 4 } } } model_warmup { }',
        {"max_batch": 8, "warm_up": {"x": [2, 4]}},
    ),
]


@pytest.mark.parametrize(("text", "settings"), SETTINGS)
def test_what_it_says_becomes_settings(text: str, settings: dict[str, Any]) -> None:
    assert read(text).settings == settings


@pytest.mark.parametrize("text", [OPENVINO, *(text for text, _ in SETTINGS)])
def test_each_setting_is_known_by_its_field(text: str) -> None:
    assert read(text).settings.keys() <= {*FIELDS, *(field.name for field in pb.ModelConfig.DESCRIPTOR.fields)}


def test_what_it_leaves_out_of_a_port_is_not_stated() -> None:
    found = read('input { name: "x" } input { name: "z" data_type: TYPE_BOOL }').stated
    assert found.inputs == {"x": StatedPort(), "z": StatedPort(BY_NAME["boolean"])}
    assert found.most_rows == 0


@pytest.mark.parametrize(("text", "expected"), [("", False), ("sequence_batching { }", True)])
def test_sequences_that_it_asks_for_are_stated(text: str, *, expected: bool) -> None:
    assert read(text).stated.has_sequences is expected


@pytest.mark.parametrize(("given", "layout"), [("NCHW", "CHW"), ("NHWC", "HWC"), ("NONE", None)])
def test_the_format_of_an_input_is_the_layout_of_its_pictures(given: str, layout: str | None) -> None:
    found = read(f'input {{ name: "x" format: FORMAT_{given} }} output {{ name: "y" }}')
    assert found.stated.inputs == {"x": StatedPort(row_layout=layout)}
    assert found.stated.outputs == {"y": StatedPort()}
    assert found.unused == ()


REFUSED = [
    ('name: "n"', "name is 'n', expected that of the model's folder, 'm'"),
    (
        'backend: "python"',
        "backend is 'python', expected one of openvino, onnxruntime, tensorflow: OpenVINO runs every",
    ),
    (
        'platform: "ensemble"',
        "platform is 'ensemble', expected one of openvino, onnxruntime_onnx, tensorflow_savedmodel",
    ),
    (
        "instance_group [{ count: 1 }, { count: 2 }]",
        "has 2 instance groups, expected one: a model has its slots on one",
    ),
    (
        'ensemble_scheduling { step [{ model_name: "a" model_version: 1 }] }',
        "ensemble_scheduling is set: ensembles are not offered",
    ),
    ("model_transaction_policy { decoupled: true }", "model_transaction_policy.decoupled is set: a request has one"),
    ('input { name: "x" dims: 4 reshape { shape: [ 2, 2 ] } }', "input.reshape is set: callers send the shapes that"),
    ('output { name: "y" dims: 1 reshape { } }', "output.reshape is set: callers get the shapes that"),
    (
        'output { label_filename: "a" } output { label_filename: "b" }',
        "outputs have the label_filename a, b, exp",
    ),
    ('input { name: "x" data_type: 32 }', "input 'x' has the data_type 32, expected a type's name, as TYPE_FP32"),
    ('output { name: "y" data_type: -1 }', "output 'y' has the data_type -1, expected a type's name, as TYPE_FP32"),
    ('sequence_batching { control_input { name: "START" } }', "sequence_batching.control_input is set: no input says"),
]


@pytest.mark.parametrize(("text", "sentence"), REFUSED)
def test_what_would_change_answers_and_is_not_offered_fails_the_model(text: str, sentence: str) -> None:
    message = failure(text)
    assert message.startswith("m/config.pbtxt")
    assert sentence in message
    assert message.endswith("(docs/from-triton.md says what maps to what)")


def test_all_that_is_not_offered_is_said_at_once() -> None:
    message = failure('name: "n" backend: "pytorch" input { optional: true allow_ragged_batch: true }')
    assert all(word in message for word in ("name is", "backend is", "input.optional", "input.allow_ragged_batch"))


UNREADABLE = [
    (
        'name: "m"\n\ncolour: "red"',
        'line 3, column 1: Message type "inference.ModelConfig" has no field named "colour".',
    ),
    ('max_batch_size: "many"', 'line 1, column 17: \'max_batch_size: "many"\': Couldn\'t parse integer: "many"'),
    ('name: "m" name: "m"', 'line 1, column 17: Message type "inference.ModelConfig" should not have multiple "name"'),
    ("dynamic_batching { } sequence_batching { }", "line 1, column 22: "),
    ("input [ { name:", "line 1, column 1"),
    ("input { data_type: 99999999999 }", "Value out of range: 99999999999"),
    ('name: "\\377"', "line 1, column "),
]


@pytest.mark.parametrize(("text", "reason"), UNREADABLE)
def test_what_is_no_configuration_fails_with_its_line(text: str, reason: str) -> None:
    assert failure(text).startswith(f"m/config.pbtxt cannot be read: {reason}")


TUNING = """
optimization { graph { level: 1 } input_pinned_memory { enable: false } }
instance_group { gpus: 0 rate_limiter { priority: 2 } }
dynamic_batching { priority_levels: 2 default_queue_policy { max_queue_size: 9 } preserve_ordering: true }
response_cache { enable: true }
"""


def test_what_only_tunes_triton_is_named() -> None:
    assert read(f"{TUNING} {parameters(ENABLE_BATCH_PADDING='YES', NUM_STREAMS='2')}").unused == (
        "dynamic_batching.default_queue_policy.max_queue_size",
        "dynamic_batching.preserve_ordering",
        "dynamic_batching.priority_levels",
        "instance_group.gpus",
        "instance_group.rate_limiter.priority",
        "optimization.graph.level",
        "response_cache.enable",
        "parameters.ENABLE_BATCH_PADDING",
    )
    assert read(f'backend: "onnxruntime" {parameters(NUM_STREAMS="2")}').unused == ("parameters.NUM_STREAMS",)


WITHOUT_EFFECT = {
    "runtime",
    "cc_model_filenames",
    "metric_tags",
    "model_metrics",
    "model_operations",
    "optimization",
    "response_cache",
    *(f"instance_group.{each}" for each in ("rate_limiter", "gpus", "secondary_devices", "profile", "passive")),
    "instance_group.host_policy",
    *(f"dynamic_batching.{each}" for each in ("preserve_ordering", "priority_levels", "default_priority_level")),
    *(f"dynamic_batching.{each}" for each in ("default_queue_policy", "priority_queue_policy")),
    *(f"sequence_batching.direct.{each}" for each in ("max_queue_delay_microseconds", "minimum_slot_utilization")),
    *(f"sequence_batching.oldest.{each}" for each in ("preferred_batch_size", "max_queue_delay_microseconds")),
    "sequence_batching.oldest.preserve_ordering",
}
"""What changes no answer, whatever it says."""

DECIDED = (
    *OFFERED,
    *WITHOUT_EFFECT,
    *("default_model_filename", "model_warmup", "ensemble_scheduling", "batch_input"),
    *("batch_output", "model_repository_agents", "model_transaction_policy.decoupled", "input.reshape"),
    *("output.reshape", "input.is_shape_tensor", "output.is_shape_tensor", "input.is_non_linear_format_io"),
    *("output.is_non_linear_format_io", "input.allow_ragged_batch", "input.optional"),
    *(f"sequence_batching.{each}" for each in ("control_input", "state", "iterative_sequence")),
    "version_policy",
)


def fields(descriptor: Any, path: str = "") -> Iterator[str]:
    """List the fields that nobody has decided upon."""
    for field in descriptor.fields:
        name = path + field.name
        if name in DECIDED:
            continue
        if field.message_type is None:
            yield name
        else:
            yield from fields(field.message_type, f"{name}.")


def test_each_field_of_the_message_is_read_refused_or_known_to_change_nothing() -> None:
    assert list(fields(pb.ModelConfig.DESCRIPTOR)) == []
