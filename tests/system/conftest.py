"""A fixture that tests of whole servers share."""

from __future__ import annotations

import pytest

from inferwire_cli.server_process import free_ports


@pytest.fixture
def port() -> int:
    """A port that a server may have, and have again when it restarts."""
    (port,) = free_ports(1)
    return port
