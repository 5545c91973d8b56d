"""The Open Inference Protocol's logging extension: what both of its interfaces share.

It knows neither protobuf nor JSON. The protocol turns levels on and off one by one; here one level is the least that
is logged, so that the more urgent ones are on with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TypeAlias

from inferwire_server.errors import invalid_input
from inferwire_server.log_options import LEVELS
from inferwire_server.service import Services

LogValue: TypeAlias = bool | int | str

_SWITCHES = {"log_info": "info", "log_warning": "warning", "log_error": "error"}
_VERBOSE = "log_verbose_level"
_FIXED: dict[str, str] = {"log_file": "", "log_format": "ISO8601"}
"""What cannot be changed: events go to stderr, with times as this format has them."""


def log_settings(services: Services) -> dict[str, LogValue]:
    """Say what is logged."""
    level = LEVELS.index(services.logs.level)
    switches = {name: level <= LEVELS.index(own) for name, own in _SWITCHES.items()}
    return {**_FIXED, **switches, _VERBOSE: int(level == 0)}


def set_log_settings(services: Services, given: Mapping[str, object]) -> None:
    """Change what is logged; a setting that is None stays as it is. Without any setting, no permission is needed.

    Raises:
        ServingError: INVALID_INPUT for a setting or a value that there is not; PERMISSION_DENIED.
    """
    if not given:
        return
    settings = log_settings(services)
    for name, value in given.items():
        settings[name] = _checked(name, settings.get(name) if value is None else value)
    services.logs.set_level(_level(settings))


def _checked(name: str, value: object) -> LogValue:
    prefix = f"log setting '{name}' is {value!r}"
    if name in _SWITCHES:
        if not isinstance(value, bool):
            raise invalid_input(f"{prefix}, expected true or false")
        return value
    if name == _VERBOSE:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise invalid_input(f"{prefix}, expected a whole number from 0 on")
        return value
    if name not in _FIXED:
        known = ", ".join((*_FIXED, *_SWITCHES, _VERBOSE))
        raise invalid_input(f"log setting '{name}' is not known, expected one of {known}")
    if value != _FIXED[name]:
        raise invalid_input(f"{prefix}, which this server cannot change; expected {_FIXED[name]!r}")
    return _FIXED[name]


def _level(settings: Mapping[str, LogValue]) -> str:
    """Give the least level that is on, after checking that no more urgent one is off."""
    states = [(_VERBOSE, bool(settings[_VERBOSE])), *((name, bool(settings[name])) for name in _SWITCHES)]
    for (name, is_on), (above, is_above_on) in pairwise(states):
        if is_on and not is_above_on:
            raise invalid_input(
                f"log setting '{above}' is off while '{name}' is on, expected it on: what is more urgent is logged too"
            )
    return LEVELS[[is_on for _, is_on in states].count(False)]
