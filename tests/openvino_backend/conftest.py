"""The real runtime, once for each file of tests."""

from __future__ import annotations

import pytest

from inferwire_server.openvino_backend.backend import OpenVinoBackend


@pytest.fixture(scope="module")
def backend() -> OpenVinoBackend:
    return OpenVinoBackend()
