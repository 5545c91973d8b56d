"""The two modules that one test body must not be able to tell apart."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest


@pytest.fixture(params=["openvino", "inferwire"])
def ov(request: pytest.FixtureRequest) -> Any:
    """The module under test, under the name users import it by."""
    return import_module(request.param)
