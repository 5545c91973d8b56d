"""Whether the caller is still there: work for a closed connection is cancelled, not finished."""

from __future__ import annotations

import asyncio
from types import TracebackType

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from inferwire_server.errors import bug


class CallerWatch:
    """Cancels the block it guards when the caller closes the connection.

    The body must have been read: from then on the connection has nothing to tell but its end.
    """

    def __init__(self, receive: Receive, after_s: float) -> None:
        self._receive = receive
        self._after_s = after_s
        self._watcher: asyncio.Task[None] | None = None
        self._has_gone = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise bug("a caller is watched outside a task")
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._after_s, self._begin)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._has_gone and self._task.uncancel() == 0 and exc_type is asyncio.CancelledError:
            raise ClientDisconnect from error

    def _begin(self) -> None:
        self._watcher = self._loop.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._has_gone = True
        self._task.cancel()
