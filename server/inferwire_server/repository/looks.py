"""Whether a path is there, and is a file or a folder; an error if that cannot be told.

From Python 3.14 on, pathlib says no in such a case, and models that serve would be unloaded for that.
"""

from __future__ import annotations

from errno import EBADF, ELOOP, ENOENT, ENOTDIR
from pathlib import Path
from stat import S_ISDIR, S_ISREG

_ABSENT = (ENOENT, ENOTDIR, EBADF, ELOOP)


def is_there(path: Path) -> bool:
    """Tell whether a path leads to anything.

    Raises:
        OSError: If that cannot be told. The other functions here raise it as well.
    """
    return _mode(path) is not None


def is_file(path: Path) -> bool:
    """Tell whether a path leads to a file."""
    return S_ISREG(_mode(path) or 0)


def is_folder(path: Path) -> bool:
    """Tell whether a path leads to a folder."""
    return S_ISDIR(_mode(path) or 0)


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
    except ValueError:
        # No path has a NUL character.
        return None
    return None
