"""How much may be asked for, by flags, by models' settings and by calls alike. Importing it needs nothing."""

from __future__ import annotations

MOST_SLOTS = 65536
"""The most slots of a model: as many of a tiny one take 400 MB, and more of them run no faster."""

LARGEST = 2**31 - 1
"""The largest whole number that a model's options and settings take."""

INT64_MAX = 2**63 - 1
"""The largest dimension, or other number, that the wire and the runtime can say."""
