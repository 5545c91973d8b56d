"""A queue of two jobs on a fake server."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import inferwire as ov
from inferwire.transport.fake_transport import FakeExecution

Finish = Callable[[FakeExecution], None]

ONES = np.ones((1, 3), np.float32)


@pytest.fixture
def queue(compiled: ov.CompiledModel) -> ov.AsyncInferQueue:
    return ov.AsyncInferQueue(compiled, 2)
