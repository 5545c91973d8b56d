"""The Open Inference Protocol's trace extension: whether inferences are traced, which the operator alone decides.

It knows neither protobuf nor JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service import Services

_SETTINGS: dict[str, list[str]] = {
    "trace_level": ["OFF"],
    "trace_rate": ["1000"],
    "trace_count": ["-1"],
    "log_frequency": ["0"],
    "trace_file": [""],
    "trace_mode": ["triton"],
}
_SETTINGS_OF_TRACING = _SETTINGS | {"trace_level": ["TIMESTAMPS"], "trace_rate": ["1"], "trace_mode": ["opentelemetry"]}


def trace_settings(services: Services, model: str) -> dict[str, list[str]]:
    """Say whether inferences are traced, of one model or of all.

    Raises:
        ServingError: MODEL_NOT_FOUND.
    """
    if model:
        services.models.find(model)
    return _SETTINGS_OF_TRACING if services.is_tracing else _SETTINGS


def set_trace_settings(services: Services, given: Mapping[str, Sequence[str]], model: str) -> dict[str, list[str]]:
    """Take settings as long as they leave all as it is, and say what is in force.

    Raises:
        ServingError: MODEL_NOT_FOUND, INVALID_INPUT for a setting that there is not, UNIMPLEMENTED for another value.
    """
    settings = trace_settings(services, model)
    for name, values in given.items():
        if name not in settings:
            raise invalid_input(f"trace setting '{name}' is not known, expected one of {', '.join(settings)}")
        (expected,) = settings[name]
        if any(value != expected for value in values):
            raise ServingError(
                Code.UNIMPLEMENTED,
                f"trace setting '{name}' is {', '.join(values)}, expected {expected or 'none'}: "
                "--traces alone changes what is traced",
            )
    return settings
