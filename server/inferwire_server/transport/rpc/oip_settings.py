"""Translates settings of logs and traces between the protocol's messages and what both of its interfaces share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb
from inferwire_server.transport.message_limits import check_few
from inferwire_server.transport.oip.logs import LogValue


def decode_log_settings(request: pb.LogSettingsRequest) -> dict[str, object]:
    """Read settings; one without a value is None, which none of them can be.

    Raises:
        ServingError: INVALID_INPUT for more settings than any request needs.
    """
    check_few("settings", len(request.settings))
    found: dict[str, object] = {}
    for name, setting in request.settings.items():
        field = setting.WhichOneof("parameter_choice")
        found[name] = None if field is None else getattr(setting, field)
    return found


def encode_log_settings(settings: Mapping[str, LogValue]) -> pb.LogSettingsResponse:
    """Write settings."""
    return pb.LogSettingsResponse(settings={name: _log_value(value) for name, value in settings.items()})


def decode_trace_settings(request: pb.TraceSettingRequest) -> dict[str, Sequence[str]]:
    """Read settings; one without values is to be the default.

    Raises:
        ServingError: INVALID_INPUT for more settings than any request needs.
    """
    check_few("settings", len(request.settings))
    return {name: setting.value for name, setting in request.settings.items()}


def encode_trace_settings(settings: Mapping[str, Sequence[str]]) -> pb.TraceSettingResponse:
    """Write settings."""
    return pb.TraceSettingResponse(
        settings={name: pb.TraceSettingResponse.SettingValue(value=values) for name, values in settings.items()}
    )


def _log_value(value: LogValue) -> pb.LogSettingsResponse.SettingValue:
    match value:
        case bool():
            return pb.LogSettingsResponse.SettingValue(bool_param=value)
        case int():
            return pb.LogSettingsResponse.SettingValue(uint32_param=value)
        case str():
            return pb.LogSettingsResponse.SettingValue(string_param=value)
