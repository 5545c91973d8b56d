"""The bounds of whole numbers on the wire."""

from __future__ import annotations

INT64_MAX = 2**63 - 1
"""The largest dimension, or other number, that the wire and the runtime can say."""
