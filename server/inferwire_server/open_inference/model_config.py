"""What a model configuration of the Open Inference Protocol says, as settings of ours.

Knows the message's fields, and not where it is from. The modules that read one decide which fields it may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.open_inference.stubs import model_config_pb2 as pb

OFFERED = frozenset(
    {
        "name",
        "platform",
        "backend",
        "version_policy",
        "max_batch_size",
        *(f"{kind}.{field}" for kind in ("input", "output") for field in ("name", "data_type", "dims")),
        "input.format",
        "output.label_filename",
        "dynamic_batching.preferred_batch_size",
        "dynamic_batching.max_queue_delay_microseconds",
        "sequence_batching.oldest.max_candidate_sequences",
        "sequence_batching.max_sequence_idle_microseconds",
        *(f"instance_group.{field}" for field in ("name", "kind", "count")),
        "parameters",
    }
)
"""Fields that become a setting, or are true of every model. Others may be there if they say nothing, as a switch that
is off."""

RESHAPE = "RESHAPE_IO_LAYERS"
"""The parameter of Triton's OpenVINO backend by which a model is reshaped to the dimensions that are stated."""

FIELDS = {
    "device": "TARGET_DEVICE or instance_group.kind",
    "slots": "instance_group.count",
    "shapes": "input.dims",
    "properties": "parameters",
    "max_batch": "max_batch_size",
    "max_batch_delay_us": "dynamic_batching.max_queue_delay_microseconds",
    "preferred_batches": "dynamic_batching.preferred_batch_size",
    "max_sequences": "sequence_batching.oldest.max_candidate_sequences",
    "sequence_idle_s": "sequence_batching.max_sequence_idle_microseconds / 1e6",
    "labels": "output.label_filename",
    "file": "default_model_filename",
    "warm_up": "model_warmup",
}
"""What errors call a setting that a configuration makes: the field that it is from."""

_DEVICES = {pb.ModelInstanceGroup.KIND_CPU: "CPU", pb.ModelInstanceGroup.KIND_GPU: "GPU"}

_DEVICE, _BF16 = "TARGET_DEVICE", "HINT_BF16"

WITHOUT_EFFECT = ("CPU_EXTENSION_PATH", "ENABLE_BATCH_PADDING", "SKIP_OV_DYNAMIC_BATCHSIZE")
"""Parameters of Triton's OpenVINO backend that have no effect here: libraries are loaded with --extension."""


def settings_of(config: pb.ModelConfig, *, says_batch: bool, who: str) -> dict[str, Any]:
    """Give the settings by their names in the model's `inferwire.toml`. `those_said` leaves out what is not said.

    `says_batch` tells a largest batch of 0 from none, between which the message does not.

    Raises:
        ServingError: UNIMPLEMENTED, with `who` says it, for instances on several devices.
    """
    dynamic, sequences = config.dynamic_batching, config.sequence_batching
    device, slots = _instances(config.instance_group, who)
    parameters = {name: parameter.string_value for name, parameter in config.parameters.items()}
    return {
        "device": parameters.get(_DEVICE) or device,
        "slots": slots,
        "version_policy": _version_policy(config.version_policy),
        "shapes": _shapes(config),
        "properties": _properties(parameters),
        "max_batch": config.max_batch_size if says_batch else None,
        "max_batch_delay_us": dynamic.max_queue_delay_microseconds or None,
        "preferred_batches": list(dynamic.preferred_batch_size),
        "max_sequences": sequences.oldest.max_candidate_sequences or None,
        "sequence_idle_s": sequences.max_sequence_idle_microseconds / 1e6 or None,
    }


def those_said(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the settings of which nothing is said: what is None or empty. A number of 0 says something."""
    return {name: value for name, value in settings.items() if value not in (None, {}, [])}


def others_said(message: Message, path: str = "") -> Iterator[str]:
    """Name the fields that say something and are not among the offered ones."""
    for field, value in message.ListFields():
        name = path + field.name
        if name in OFFERED:
            continue
        kind = field.message_type
        # A reshape to no dimensions says something, too.
        if kind is None or kind.GetOptions().map_entry or kind is pb.ModelTensorReshape.DESCRIPTOR:
            yield name
            continue
        for part in value if field.is_repeated else (value,):
            yield from others_said(part, f"{name}.")


def is_yes(value: str | None) -> bool:
    """Tell whether a parameter of Triton's OpenVINO backend is on."""
    return value is not None and value.upper() == "YES"


def _version_policy(policy: pb.ModelVersionPolicy) -> str | None:
    match policy.WhichOneof("policy_choice"):
        case "latest":
            return f"latest:{max(policy.latest.num_versions, 1)}"
        case "all":
            return "all"
        case "specific":
            return ",".join(map(str, policy.specific.versions)) or None
        case None:
            return None


def _instances(groups: Sequence[pb.ModelInstanceGroup], who: str) -> tuple[str | None, int | None]:
    """Give the device and the slots that are asked for."""
    if len(groups) > 1:
        raise ServingError(
            Code.UNIMPLEMENTED,
            f"{who} has {len(groups)} instance groups, expected one: a model has its slots on one device",
        )
    return (_DEVICES.get(groups[0].kind), groups[0].count or None) if groups else (None, None)


def _shapes(config: pb.ModelConfig) -> dict[str, list[int]]:
    """Give the shapes of inputs. If there are batches, the dimensions that are stated are a row's."""
    rows = [-1] if config.max_batch_size > 0 else []
    return {given.name: [*rows, *given.dims] for given in config.input if given.dims}


def _properties(parameters: Mapping[str, str]) -> dict[str, str]:
    """Give OpenVINO's properties: every parameter that Triton's backend does not read itself is one."""
    own = {_DEVICE, _BF16, RESHAPE, *WITHOUT_EFFECT}
    precision = {"INFERENCE_PRECISION_HINT": "bf16"} if is_yes(parameters.get(_BF16)) else {}
    return {name: value for name, value in parameters.items() if name not in own} | precision
