"""The folder of the sockets on which a server's workers call each other: the lead makes it, for its own user alone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

from inferwire_server.crew import Crew
from inferwire_server.errors import invalid_input
from inferwire_server.host.own_folder import OwnFolder, temporary_files_for
from inferwire_server.workers.processes import Workers


@asynccontextmanager
async def socket_folder(workers: Workers) -> AsyncGenerator[Workers, None]:
    """Give the workers with the folder of their sockets, there while the block runs. The lead tells the others of it.

    Raises:
        ServingError: INVALID_INPUT if the temporary files have no place for it.
    """
    if workers.crew.count == 1 or not workers.crew.is_lead:
        yield workers
        return
    with closing(await asyncio.to_thread(_own_folder)) as folder:
        crew = replace(workers.crew, folder=folder.path)
        _require_sockets(crew)
        yield replace(workers, crew=crew)


def _own_folder() -> OwnFolder:
    with temporary_files_for("--workers"):
        return OwnFolder()


def _require_sockets(crew: Crew) -> None:
    """Refuse a folder in which workers cannot listen: most likely its path is too long for a socket's."""
    longest = crew.connections_of(crew.count)
    why = "gRPC takes a comma for the end of a path" if "," in longest else _why_no_socket(longest)
    if why is not None:
        raise invalid_input(
            f"--workers needs a folder for temporary files that may have sockets in it, and '{crew.folder.parent}' is "
            f"none: {why}; name another with TMPDIR"
        )


def _why_no_socket(path: str) -> str | None:
    try:
        with socket.socket(socket.AF_UNIX) as tried:
            tried.bind(path)
    except OSError as error:
        return str(error)
    Path(path).unlink()
    return None
