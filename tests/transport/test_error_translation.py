"""What callers are told of what was raised."""

from __future__ import annotations

from errno import EMFILE, ENFILE

import pytest
from structlog.testing import capture_logs

from inferwire_proto.errors import Code
from inferwire_proto.raw_fields import MalformedMessage
from inferwire_server.transport.error_translation import as_serving_error


def test_what_cannot_be_read_is_the_callers_and_no_bug() -> None:
    with capture_logs() as logs:
        refusal = as_serving_error(MalformedMessage("no message"), path="/")
    assert (refusal.code, refusal.message, logs) == (Code.INVALID_INPUT, "no message", [])


def test_a_lack_of_memory_is_no_bug() -> None:
    lack = MemoryError("no room for 9 bytes")
    with capture_logs() as logs:
        refusal = as_serving_error(lack, path="/v2")
    (entry,) = logs
    assert (entry["event"], entry["path"], entry["exc_info"]) == ("out of memory in a call", "/v2", lack)
    assert refusal.code is Code.TOO_LARGE
    assert refusal.message == f"the server is out of memory for this request; its log has more under id {entry['id']}"


@pytest.mark.parametrize("number", [EMFILE, ENFILE])
def test_a_lack_of_files_is_no_bug_and_passes(number: int) -> None:
    with capture_logs() as logs:
        refusal = as_serving_error(OSError(number, "too many"), path="/v2")
    (entry,) = logs
    assert (entry["event"], entry["path"]) == ("no more files can be opened in a call", "/v2")
    assert (refusal.code, refusal.status.http, refusal.status.grpc) == (Code.INTERNAL, 503, "UNAVAILABLE")
    assert refusal.retry_after_s == 1.0
    assert refusal.message == f"the server can open no more files; its log has more under id {entry['id']}"


def test_the_log_has_a_bug_and_where_it_was_met() -> None:
    bug = ValueError("secret")
    with capture_logs() as logs:
        refusal = as_serving_error(bug, path="/v2")
    (entry,) = logs
    assert (entry["event"], entry["path"], entry["exc_info"]) == ("bug in a call", "/v2", bug)
    assert refusal.code is Code.INTERNAL
    assert refusal.message == f"a bug in the server; its log has more under id {entry['id']}"
