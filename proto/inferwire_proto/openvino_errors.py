"""What people read of OpenVINO's errors."""

from __future__ import annotations

import re

_PLACES = re.compile(r"(?:Exception from |Check '[^\n]*?' failed at )\S+:\d+:\s*(?=\S)")
"""Where in OpenVINO's sources an error arose and what it came through, as long as something is said behind it."""


def without_places(text: str) -> str:
    """Leave out what of a text only OpenVINO's developers can read."""
    return _PLACES.sub("", text)
