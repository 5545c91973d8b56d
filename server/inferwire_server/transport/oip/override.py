"""The configuration that a caller of the Open Inference Protocol loads a model with, as settings of ours.

The protocol defines it as one of its messages in protobuf's JSON, on both faces: a number may be a text there, and a
name be written in two ways. What of it is not offered here is refused, all of it in one message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import orjson
from google.protobuf import json_format
from google.protobuf.message import Message

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.open_inference.stubs import model_config_pb2 as pb
from inferwire_server.service.load_options import LoadOptions
from inferwire_server.service.models import Model
from inferwire_server.transport.oip.metadata import PLATFORM, dimensions

_OFFERED = frozenset(
    {
        "name",
        "platform",
        "backend",
        "version_policy",
        "max_batch_size",
        *(f"{kind}.{field}" for kind in ("input", "output") for field in ("name", "data_type", "dims")),
        "input.format",
        "dynamic_batching.preferred_batch_size",
        "dynamic_batching.max_queue_delay_microseconds",
        "sequence_batching.oldest.max_candidate_sequences",
        "sequence_batching.max_sequence_idle_microseconds",
        *(f"instance_group.{field}" for field in ("name", "kind", "count")),
        "parameters",
    }
)
"""What a configuration may say; what says nothing, such as a switch that is off, it may say anyway."""

_DEVICES = {pb.ModelInstanceGroup.KIND_CPU: "CPU", pb.ModelInstanceGroup.KIND_GPU: "GPU"}


def read_override(text: str, name: str, model: Model | None) -> LoadOptions:
    """Read the configuration that a model is to be loaded with; `model` is what it is now, if it is ready.

    Raises:
        ServingError: INVALID_INPUT if it is none, or UNIMPLEMENTED naming all that is not offered.
    """
    config, says_batch = _parse(text, name)
    _check(config, name)
    device, slots = _instances(config.instance_group, name, model)
    dynamic, sequences = config.dynamic_batching, config.sequence_batching
    return LoadOptions(
        device=device,
        slots=slots,
        version_policy=_version_policy(config.version_policy),
        shapes=_shapes(config, model),
        properties={name: parameter.string_value for name, parameter in config.parameters.items()},
        max_batch=config.max_batch_size if says_batch else None,
        max_batch_delay_us=dynamic.max_queue_delay_microseconds or None,
        preferred_batches=tuple(dynamic.preferred_batch_size),
        max_sequences=sequences.oldest.max_candidate_sequences or None,
        sequence_idle_s=sequences.max_sequence_idle_microseconds / 1e6 or None,
    )


def _check(config: pb.ModelConfig, name: str) -> None:
    refused = sorted(set(_not_offered(config)))
    if refused:
        raise ServingError(
            Code.UNIMPLEMENTED,
            f"the config of the load of model '{name}' has {', '.join(refused)}, which this server does not offer; "
            f"expected some of {', '.join(sorted(_OFFERED))}",
        )
    for field, expected in (("name", name), ("platform", PLATFORM), ("backend", PLATFORM)):
        given = getattr(config, field)
        if given not in ("", expected):
            raise invalid_input(
                f"the config of the load of model '{name}' has {field} '{given}', expected '{expected}'"
            )


def _parse(text: str, name: str) -> tuple[pb.ModelConfig, bool]:
    """Read the message, and whether it says a largest batch: protobuf keeps no difference between 0 and nothing."""
    prefix = f"the config of the load of model '{name}' is no model configuration"
    try:
        document: object = orjson.loads(text)
        if not isinstance(document, dict):
            raise invalid_input(f"{prefix}: expected a JSON object")
        names = cast("dict[str, object]", document)
        says_batch = "max_batch_size" in names or "maxBatchSize" in names
        return json_format.ParseDict(names, pb.ModelConfig()), says_batch
    except (orjson.JSONDecodeError, json_format.ParseError) as error:
        raise invalid_input(f"{prefix}: {error}") from error


def _not_offered(message: Message, path: str = "") -> Iterator[str]:
    """Name the fields that say something that is not offered."""
    for field, value in message.ListFields():
        name = path + field.name
        if name in _OFFERED:
            continue
        kind = field.message_type
        if kind is None or kind.GetOptions().map_entry:
            yield name
            continue
        for part in value if field.is_repeated else (value,):
            yield from _not_offered(part, f"{name}.")


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


def _instances(
    groups: Sequence[pb.ModelInstanceGroup], name: str, model: Model | None
) -> tuple[str | None, int | None]:
    """Give the device and the slots that are asked for, where the model is not there already."""
    if len(groups) > 1:
        raise ServingError(
            Code.UNIMPLEMENTED,
            f"the config of the load of model '{name}' has {len(groups)} instance groups, expected one: "
            "a model has its slots on one device",
        )
    if not groups:
        return None, None
    device, is_on = _DEVICES.get(groups[0].kind), "" if model is None else model.device.name.partition(".")[0]
    return None if device == is_on else device, groups[0].count or None


def _shapes(config: pb.ModelConfig, model: Model | None) -> dict[str, list[int]]:
    """Give the shapes of inputs that are to be others than they are. Where there are batches, a row's are stated."""
    known = {} if model is None else {port.oip_name: list(dimensions(port)) for port in model.spec.inputs}
    rows = [-1] if config.max_batch_size > 0 else []
    stated = {given.name: [*rows, *given.dims] for given in config.input if given.dims}
    return {name: shape for name, shape in stated.items() if known.get(name) != shape}
