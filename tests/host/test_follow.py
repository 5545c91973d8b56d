"""Renewing what is served after changes, also where the watch or the renewal fails."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from errno import EIO, EMFILE, ENFILE

import pytest
from structlog.testing import capture_logs

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.host.follow import follow


class Watches:
    """Watches that begin, and fail, as the test says."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.outcomes = list(outcomes)
        self.seen: list[str] = []

    async def changes(self) -> AsyncGenerator[object, None]:
        outcome = self.outcomes.pop(0)
        if outcome is not None:
            raise outcome
        yield "begun"
        raise self.outcomes.pop(0) or asyncio.CancelledError

    async def wait(self) -> None:
        self.seen.append("waited")

    async def renew(self) -> None:
        self.seen.append("renewed")


async def test_a_watch_that_fails_is_begun_anew_and_what_it_missed_is_looked_at() -> None:
    full = OSError("OS file watch limit reached")
    odd = ExceptionGroup("unhandled", [RuntimeError("a path is no text"), OSError("it has gone")])
    watches = Watches(full, full, PermissionError("closed"), odd, None, full, None, None)
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await follow(watches.changes, watches.renew, "it cannot be renewed", watches.wait)
    assert watches.seen == [*["waited", "renewed"] * 4, "renewed", "waited", "renewed", "renewed"]
    limits = "if it is the system's limit, raise fs.inotify.max_user_watches and fs.inotify.max_user_instances"
    reason = f"OS file watch limit reached; {limits}"
    assert [line["reason"] for line in logs] == [reason, "closed", "a path is no text; it has gone", reason]
    assert {line["event"] for line in logs} == {"changes are not seen at once"}


@pytest.mark.parametrize("number", [EMFILE, ENFILE, EIO])
async def test_a_renewal_that_fails_for_what_passes_is_tried_again_without_a_change(number: int) -> None:
    shortage = OSError(number, os.strerror(number))
    wrapped = ServingError(Code.INVALID_INPUT, "the keys cannot be read")
    wrapped.__cause__ = shortage
    failures: list[Exception | None] = [shortage, wrapped, ServingError(Code.INVALID_INPUT, "no keys"), None]
    watches = Watches(None, None)

    async def renew() -> None:
        await watches.renew()
        if (failure := failures.pop(0)) is not None:
            raise failure

    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await follow(watches.changes, renew, "they stay as they were", watches.wait)
    assert watches.seen == ["renewed", "waited", "renewed", "waited", "renewed"]
    assert [line["reason"] for line in logs] == [str(shortage), "the keys cannot be read", "no keys"]
