"""The thread for work that holds the GIL, Python's interpreter lock, from its beginning to its end.

Such work is to read or write JSON, typed contents of gRPC, and whatever else Python itself computes. What waits, or
frees the GIL, goes to `asyncio.to_thread`: files, compression, copies by numpy.
"""

from __future__ import annotations

from typing import Self

from inferwire_server.call_threads import CallThreads


class GilThread(CallThreads):
    """Runs one call after the other, in the order in which they came.

    More threads would not compute more at once. Each would be one more thread that takes the GIL before the event loop
    whenever the loop has waited for a socket: behind six, answers to small requests took a hundred times as long.
    """

    def __init__(self) -> None:
        super().__init__(1, "gil")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Cancel the calls that have not begun, and wait for the one that has: it computes, and so it ends."""
        await self.close(None)
