"""The Open Inference Protocol's trace extension, as a server answers it that does not trace.

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


def trace_settings(services: Services, model: str = "") -> dict[str, list[str]]:
    """Say that nothing is traced, of one model or of all.

    Raises:
        ServingError: MODEL_NOT_FOUND.
    """
    if model:
        services.models.find(model)
    return _SETTINGS


def set_trace_settings(services: Services, given: Mapping[str, Sequence[str]], model: str = "") -> dict[str, list[str]]:
    """Take settings as long as they trace nothing, and say what is in force.

    Raises:
        ServingError: MODEL_NOT_FOUND, INVALID_INPUT for a setting that there is not, UNIMPLEMENTED for a trace.
    """
    for name, values in given.items():
        if name not in _SETTINGS:
            raise invalid_input(f"trace setting '{name}' is not known, expected one of {', '.join(_SETTINGS)}")
        if name == "trace_level" and any(value != "OFF" for value in values):
            raise ServingError(
                Code.UNIMPLEMENTED,
                f"trace setting 'trace_level' is {', '.join(values)}, expected OFF: this server does not trace",
            )
    return trace_settings(services, model)
