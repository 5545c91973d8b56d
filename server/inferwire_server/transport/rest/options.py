"""What an operator decides about REST."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestOptions:
    """Limits of the HTTP calls.

    Attributes:
        max_body_bytes: The largest body, as sent and as decompressed.
    """

    max_body_bytes: int = 64 * 1024 * 1024
