"""The folder of uploaded files: how often the log tells that the disk fails."""

from __future__ import annotations

from contextlib import closing

import pytest
from structlog.testing import capture_logs
from tests.clock import Clock

from inferwire_proto.errors import Code
from inferwire_server.host.blob_folder import BlobFolder, DiskFault


def fail(folder: BlobFolder, reason: str) -> None:
    with pytest.raises(DiskFault), folder.logging_faults():
        raise DiskFault(Code.TOO_LARGE, "the upload cannot be stored", reason)


def test_the_log_tells_once_a_minute_that_the_disk_fails() -> None:
    clock = Clock()
    with closing(BlobFolder(clock)) as folder, capture_logs() as logged:
        for reason, at in {"first": 0, "second": 59, "third": 60, "fourth": 61, "fifth": 121}.items():
            clock.now = 1000.0 + at
            fail(folder, reason)
    assert [line["reason"] for line in logged] == ["first", "third", "fifth"]


def test_what_is_no_fault_of_the_disk_is_not_logged() -> None:
    with closing(BlobFolder()) as folder, capture_logs() as logged:
        with pytest.raises(ValueError, match="other"), folder.logging_faults():
            raise ValueError("other")
        assert repr(folder) == f"<BlobFolder: {folder.path}>"
    assert logged == []
