"""A proxy between clients and a server, in place of a network between them: a port of its own that leads there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from tests.waiting import LIMIT_S

from inferwire_cli.server_process import HOST


class Proxy:
    """Passes bytes between clients and a server until it is told to cut or to swallow them.

    Attributes:
        port: Where it listens.
        connections: How many have been opened.
        cut_after: The number of bytes after which all connections are cut, if it is set.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self.port = 0
        self.connections = 0
        self.cut_after: int | None = None
        self._silent = 0
        self._is_down = False
        self._writers: list[asyncio.StreamWriter] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._accept, HOST))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()

    def go_silent(self) -> None:
        """Keep the open connections open, and pass nothing more on them."""
        self._silent = self.connections

    def go_down(self) -> None:
        """Cut all connections, and new ones as they are opened."""
        self._is_down = True
        self._run(self._cut())

    def come_back(self) -> None:
        """Pass on what comes from now on."""
        self._is_down = False

    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(LIMIT_S)

    async def _stop(self) -> None:
        self._server.close()
        await self._cut()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_down:
            writer.transport.abort()
            return
        up_reader, up_writer = await asyncio.open_connection(HOST, self._target)
        self._writers += [writer, up_writer]
        self.connections += 1
        number = self.connections
        await asyncio.gather(self._pass(reader, up_writer, number), self._pass(up_reader, writer, number))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        try:
            while data := await reader.read(1 << 14):
                if self._is_last(data):
                    await self._cut()
                elif number > self._silent:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        writer.close()

    def _is_last(self, data: bytes) -> bool:
        """Count down to the byte after which the connections are cut."""
        if self.cut_after is None:
            return False
        self.cut_after -= len(data)
        if self.cut_after > 0:
            return False
        self.cut_after = None
        return True
