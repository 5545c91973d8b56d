"""Control characters of names and texts that others chose: they could make a terminal do and show anything."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All but tabs and ends of lines."""


def written_out(text: str) -> str:
    r"""Write control characters as escapes such as `\x1b`."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
