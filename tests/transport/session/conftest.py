"""The clock of the sessions that are tested."""

from __future__ import annotations

import pytest
from tests.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()
