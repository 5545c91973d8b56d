"""Where uploaded files lie, as long as the disk takes them and nobody removes them: `BlobFolder`.

Knows nothing of what the files are. It has the log say what keeps callers from uploading, who are told as well.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic

import structlog

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError, is_lack_of_files
from inferwire_server.host.own_folder import OwnFolder
from inferwire_server.seldom import Seldom

log = structlog.stdlib.get_logger()


class DiskFault(ServingError):
    """The disk does not take an uploaded file, or does not have it any more.

    Attributes:
        reason: Why, without what the caller has sent.
    """

    def __init__(self, code: Code, message: str, reason: str) -> None:
        super().__init__(code, message)
        self.reason = reason


class BlobFolder:
    """A folder in one of the process's own. `clock` shows the time in seconds, by which the log tells of faults."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._tells = Seldom(clock)
        self._begin()

    def __repr__(self) -> str:
        return f"<BlobFolder: {self.path}>"

    def close(self) -> None:
        """Remove it."""
        self._own.close()

    def renew_if_gone(self) -> None:
        """Make another if somebody has removed this one, as programs do that clear old temporary files.

        Raises:
            DiskFault: If none can be made.
        """
        if self._own.is_there and self.path.is_dir():
            return
        gone = self._own
        with self.logging_faults(), on_disk("the upload"):
            self._begin()
        gone.close()
        log.warning("the folder for uploads was removed, and is made anew", folder=str(self.path))

    @contextmanager
    def logging_faults(self) -> Generator[None]:
        """Have the log say that the disk does not do what the block does: once a minute, and not for each call."""
        try:
            yield
        except DiskFault as fault:
            if self._tells.is_due():
                log.error("uploads fail", folder=str(self.path), reason=fault.reason)
            raise

    def _begin(self) -> None:
        own = OwnFolder()
        path = own.path / "blobs"
        try:
            path.mkdir()
        except OSError:
            own.close()
            raise
        self._own, self.path = own, path


@contextmanager
def on_disk(what: str) -> Generator[None]:
    """Do what the disk may refuse, most often because it is full.

    Raises:
        DiskFault: TOO_LARGE with the system's reason.
        OSError: If no more files can be opened.
    """
    try:
        yield
    except OSError as error:
        if is_lack_of_files(error):
            raise
        reason = str(error.strerror)
        raise DiskFault(Code.TOO_LARGE, f"{what} cannot be stored: {reason}", reason) from error
