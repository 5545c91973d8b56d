"""What the method that answers a call sees of its caller, and how the two talk while the call runs."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from inferwire_server.core.callers import Caller
from inferwire_server.core.scheduling.outlet import Outlet
from inferwire_server.transport.rpc.call_head import Metadata


class Context(Protocol):
    """One call's way to its caller."""

    @property
    def metadata(self) -> Metadata:
        """What the caller has sent besides its messages."""
        ...

    @property
    def peer(self) -> str:
        """Where the caller is: `ipv4:127.0.0.1:1234`, `ipv6:[::1]:1234` or `unix:`."""
        ...

    @property
    def caller(self) -> Caller:
        """Who its connection is for turns among callers."""
        ...

    @property
    def outlet(self) -> Outlet:
        """Where the answers on its connection go out."""
        ...

    def read(self) -> Awaitable[bytes | None]:
        """Give the next message of a caller that sends many; None once it has sent all.

        Raises:
            RpcStatus: What was received is no message.
            ServingError: TOO_LARGE.
        """
        ...

    @property
    def has_room(self) -> bool:
        """Whether the caller takes what is sent: False while too much waits for it."""
        ...

    def send(self, message: bytes) -> None:
        """Send a message before the call ends, whether the caller takes it or not.

        Raises:
            asyncio.CancelledError: The caller has left.
        """
        ...

    async def wait_for_room(self) -> None:
        """Wait until there is room. Only one task of a call may wait at a time."""
        ...

    async def write(self, message: bytes) -> None:
        """Send a message, and wait until there is room for the next.

        Raises:
            asyncio.CancelledError: The caller has left.
        """
        ...
