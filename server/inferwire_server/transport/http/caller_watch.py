"""Whether the caller is still there: work for a closed connection is cancelled, not finished."""

from __future__ import annotations

import asyncio
from types import TracebackType

from starlette.requests import ClientDisconnect, Request

from inferwire_server.errors import bug
from inferwire_server.transport.http.exchange import exchange_of


class CallerWatch:
    """Cancels the block it guards when the caller closes the connection.

    Raises ClientDisconnect where it has.
    """

    def __init__(self, request: Request) -> None:
        self._connection = exchange_of(request.scope).connection
        self._has_gone = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise bug("a caller is watched outside a task")
        self._task = task
        self._connection.watch(self._cancel)

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.unwatch()
        if self._has_gone and self._task.uncancel() == 0 and exc_type is asyncio.CancelledError:
            raise ClientDisconnect from error

    def _cancel(self) -> None:
        self._has_gone = True
        self._task.cancel()
