"""Names from callers that have to be short: those that the server keeps after it has answered, and those of devices."""

from __future__ import annotations

from inferwire_server.errors import invalid_input

LONGEST_NAME = 1024
"""How many characters a name may have: names do not count towards what may be kept for callers."""

LONGEST_DEVICE = 1024
"""How many characters the name of a device may have, which may list many: OpenVINO takes as long over a list as its
length squared, and Python does nothing else meanwhile."""


def check_name(what: str, name: str) -> None:
    """Refuse a name that is too long to be kept.

    Raises:
        ServingError: INVALID_INPUT.
    """
    if len(name) > LONGEST_NAME:
        raise invalid_input(f"{what} has {len(name)} characters, expected at most {LONGEST_NAME}")


def check_device(device: str) -> None:
    """Refuse a name of a device that is too long to be given to the runtime.

    Raises:
        ServingError: INVALID_INPUT.
    """
    if len(device) > LONGEST_DEVICE:
        raise invalid_input(f"the device's name has {len(device)} characters, expected at most {LONGEST_DEVICE}")
