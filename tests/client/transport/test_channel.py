"""gRPC's channels are opened whatever else the program does meanwhile."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from inferwire.transport.address import parse_address
from inferwire.transport.channel import close_channel, open_channel
from inferwire.transport.credentials import Credentials
from inferwire.transport.timeouts import Timeouts


def test_one_is_opened_while_another_thread_imports_gevent(monkeypatch: pytest.MonkeyPatch) -> None:
    half_imported = ModuleType("gevent.monkey")
    monkeypatch.setitem(sys.modules, half_imported.__name__, half_imported)
    close_channel(open_channel(parse_address("127.0.0.1:1"), Timeouts(), Credentials()))
