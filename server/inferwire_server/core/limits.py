"""How much may be asked for, by flags and by models' settings alike. Importing it needs nothing."""

from __future__ import annotations

MOST_SLOTS = 65536
"""The most slots of a model: as many of a tiny one take 400 MB, and more of them run no faster."""
