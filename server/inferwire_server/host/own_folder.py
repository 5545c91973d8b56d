"""A temporary folder of this process's own, which is removed however the process ends: by the next one, if need be.

Its mark is a file that the process holds a lock on for as long as it lives: the system releases the lock even if the
process is killed. A folder with an unlocked mark, and no other folder, is taken for what a dead process has left
behind.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from os.path import samestat
from pathlib import Path
from shutil import rmtree
from stat import S_ISDIR
from tempfile import gettempdir, mkdtemp
from weakref import finalize

import structlog

from inferwire_server.errors import invalid_input

log = structlog.get_logger()

_PREFIX = "inferwire-"
_MARK = ".inferwire-process"


class OwnFolder:
    """A folder among the temporary files. It is removed even if its maker was cancelled before it had the folder."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix=_PREFIX))
        self._remove = finalize(self, rmtree, self.path, ignore_errors=True)
        # The mark gets its name once it is locked: other processes must not see it unlocked.
        unlocked = self.path / f"{_MARK}.new"
        self._lock = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
        # Programs that remove old temporary files, such as systemd-tmpfiles, pass over a folder that is locked.
        self._in_use = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):
            flock(self._in_use, LOCK_EX | LOCK_NB)
            flock(self._lock, LOCK_EX | LOCK_NB)
            unlocked.rename(self.path / _MARK)

    def __repr__(self) -> str:
        return f"<OwnFolder: {self.path}>"

    @property
    def is_there(self) -> bool:
        """Whether it is where it was made, as far as can be seen: others may have removed it."""
        try:
            return samestat(self.path.lstat(), os.fstat(self._in_use))
        except OSError:
            return False

    def close(self) -> None:
        """Remove it."""
        self._remove()
        os.close(self._in_use)
        os.close(self._lock)


@contextmanager
def temporary_files_for(flag: str) -> Generator[None]:
    """Make temporary files that a setting needs, after removing what killed servers have left. Blocks.

    Raises:
        ServingError: INVALID_INPUT if there is no folder for them.
    """
    try:
        _require_named()
        remove_left_behind()
        yield
    except OSError as error:
        raise invalid_input(
            f"{flag} needs a folder for temporary files, which TMPDIR names, and there is none to write to: {error}"
        ) from error


def _require_named() -> None:
    """Refuse a TMPDIR that cannot be used: Python takes another folder in its place, where no files are expected."""
    named = os.environ.get("TMPDIR")
    if named and Path(gettempdir()).resolve() != Path(named).resolve():
        raise OSError(f"TMPDIR is '{named}', expected a folder that can be written to and has room")


def remove_left_behind() -> None:
    """Remove the folders that dead processes of this user have left. Blocks."""
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        lock = _lock(folder)
        if lock is not None:
            log.info("files that a killed server has left are removed", folder=str(folder))
            rmtree(folder, ignore_errors=True)
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """Lock a folder of this user's whose process is dead, until the descriptor that this gives is closed; else None."""
    try:
        about = folder.lstat()
        if not S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
            return None
        lock = os.open(folder / _MARK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        flock(lock, LOCK_EX | LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock
