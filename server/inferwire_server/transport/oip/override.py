"""The configuration that a caller of the Open Inference Protocol loads a model with, as settings of ours.

The protocol defines it as one of its messages in protobuf's JSON, on both interfaces: a number may be a text there, and
a name be written in two ways. What of it is not offered here is refused, all of it in one message.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

import orjson
from google.protobuf import json_format

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.open_inference.model_config import OFFERED, others_said, settings_of, those_said
from inferwire_server.open_inference.stubs import model_config_pb2 as pb
from inferwire_server.service.models import Model
from inferwire_server.transport.oip.metadata import PLATFORM, dimensions

_MOST_VALUES = 1 << 14
"""About how many values a configuration may have: until all of them are read, no other call has a turn."""


def read_override(
    text: str, name: str, model: Model | None, brought: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Read the configuration that a model is to be loaded with, as its `inferwire.toml` would say it.

    `model` is what it is now, if it is ready, and `brought` the settings that it has only from its last load.

    Raises:
        ServingError: INVALID_INPUT if it is none, or UNIMPLEMENTED naming all that is not offered.
    """
    config, says_batch = _parse(text, name)
    who = f"the config of the load of model '{name}'"
    _check(config, name, who)
    settings = settings_of(config, says_batch=says_batch, who=who)
    return those_said(settings if model is None else _changed(settings, model, brought))


def _changed(settings: Mapping[str, Any], model: Model, brought: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what the model is already by itself: where it runs, and which shapes it has."""
    is_on = None if "device" in brought else model.device.name.partition(".")[0]
    shaped = brought.get("shapes", {})
    known = {port.oip_name: list(dimensions(port)) for port in model.spec.inputs if port.oip_name not in shaped}
    return {
        **settings,
        "device": None if settings["device"] == is_on else settings["device"],
        "shapes": {name: shape for name, shape in settings["shapes"].items() if known.get(name) != shape},
    }


def _check(config: pb.ModelConfig, name: str, who: str) -> None:
    refused = sorted(set(others_said(config)))
    if refused:
        raise ServingError(
            Code.UNIMPLEMENTED,
            f"{who} has {', '.join(refused)}, which this server does not offer; "
            f"expected some of {', '.join(sorted(OFFERED))}",
        )
    for field, expected in (("name", name), ("platform", PLATFORM), ("backend", PLATFORM)):
        given = getattr(config, field)
        if given not in ("", expected):
            raise invalid_input(f"{who} has {field} '{given}', expected '{expected}'")


def _parse(text: str, name: str) -> tuple[pb.ModelConfig, bool]:
    """Read the message, and whether it says a largest batch: protobuf keeps no difference between 0 and nothing."""
    prefix = f"the config of the load of model '{name}' is no model configuration"
    # Each value but the first stands behind one of these.
    if sum(map(text.count, ",[{")) > _MOST_VALUES:
        raise invalid_input(f"{prefix}: it has more than {_MOST_VALUES} values, expected fewer")
    try:
        document: object = orjson.loads(text)
        if not isinstance(document, dict):
            raise invalid_input(f"{prefix}: expected a JSON object")
        names = cast("dict[str, object]", document)
        says_batch = "max_batch_size" in names or "maxBatchSize" in names
        return json_format.ParseDict(names, pb.ModelConfig()), says_batch
    except (orjson.JSONDecodeError, json_format.ParseError) as error:
        raise invalid_input(f"{prefix}: {error}") from error
