"""What users are shown of OpenVINO's errors."""

from __future__ import annotations

import re

_PLACES = re.compile(r"(?:Exception from |Check '[^\n]*?' failed at )\S+:\d+:\s*(?=\S)")
"""Places in OpenVINO's sources where an error arose or passed, if more text follows."""


def without_places(text: str) -> str:
    """Leave out the parts of a text that only OpenVINO's developers can use."""
    return _PLACES.sub("", text)
