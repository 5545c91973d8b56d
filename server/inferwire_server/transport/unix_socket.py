"""A port as a file: a Unix socket for callers on this machine.

Owns whose file it is: one left over by a server that has ended is removed, any other is not touched.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import structlog

from inferwire_server.transport.listening import CannotListenAt

log = structlog.stdlib.get_logger()

_OWNER_AND_GROUP = 0o660
_LONGEST_PATH = 107
"""What the system has room for in a socket's address."""


@contextmanager
def socket_file(path: Path, bind: Callable[[Path], object], cannot: str) -> Generator[None]:
    """Have something bind a socket to a path, for callers of this user and group; remove the file at the end.

    Raises:
        CannotListenAt: If it cannot, with a sentence that begins with `cannot`.
    """
    _make_way(path, cannot)
    identity = _bind(bind, path, cannot)
    try:
        yield
    finally:
        _clear(path, identity)


def _make_way(path: Path, cannot: str) -> None:
    """Remove the socket of a server that has ended."""
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise CannotListenAt(cannot, f"the path is longer than the {_LONGEST_PATH} bytes a socket's may have")
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise CannotListenAt(cannot, str(error.strerror)) from None
    if not stat.S_ISSOCK(mode):
        raise CannotListenAt(cannot, "there is a file that is no socket")
    try:
        listens = _listens(path)
        if not listens:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise CannotListenAt(cannot, str(error.strerror)) from None
    if listens:
        raise CannotListenAt(cannot, "another process listens there")


def _listens(path: Path) -> bool:
    with closing(socket.socket(socket.AF_UNIX)) as probe:
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return False
    return True


def _bind(bind: Callable[[Path], object], path: Path, cannot: str) -> tuple[int, int] | None:
    # Until the file is given its mode, only its owner may use it.
    mask = os.umask(0o177)
    try:
        bind(path)
        path.chmod(_OWNER_AND_GROUP)
    except OSError as error:
        folder = path.absolute().parent
        why = str(error.strerror) if folder.is_dir() else f"'{folder}' is no folder"
        raise CannotListenAt(cannot, why) from None
    finally:
        os.umask(mask)
    return _identity(path)


def _clear(path: Path, identity: tuple[int, int] | None) -> None:
    """Remove the socket, unless there is another's by now. If it cannot be removed, the server ends all the same."""
    try:
        if _identity(path) == identity:
            path.unlink()
    except OSError as error:
        log.warning("the socket's file stays", path=str(path), reason=error.strerror)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
