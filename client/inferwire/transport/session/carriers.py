"""What carries the messages of a session's stream: gRPC's own stream, which always can, or a plain socket.

Owns what a stream may ask of either. What the messages say is the stream's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

import grpc

from inferwire.transport import rpc
from inferwire.transport.executions import WireBytes

Pieces: TypeAlias = Sequence[WireBytes]
"""One message's bytes, in pieces that nobody has joined."""


class Carrier(Protocol):
    """Carries messages both ways, until either side ends it."""

    @property
    def send(self) -> Callable[[Pieces, list[int]], None] | None:
        """Sends a message from the calling thread, without waiting. Whoever receives hears of it if that fails.

        Puts into the list how many bytes went at once. Where it is interrupted, as by Ctrl-C, the list tells what
        became of the message: with a number in it, the rest follows; empty, nothing went, or the carrier ends.

        None where the carrier takes no messages but those that `start` was given.
        """
        ...

    def start(self, messages: Iterator[Pieces], wake: Callable[[], None]) -> None:
        """Start to send the messages; after the last one, tell the server that no more come.

        `wake` makes the iterator return from waiting for a message. It then gives one without pieces, to be skipped.
        """
        ...

    def receive(self) -> Iterator[WireBytes]:
        """Give the messages that come, until the server ends it. For one thread.

        Raises:
            InferwireError: If it does not end well.
            ValueError: If what comes cannot be read.
        """
        ...

    def cancel(self) -> None:
        """End it now. Safe to call from a destructor."""
        ...


class GrpcCarrier:
    """Carries messages on the stream of a gRPC call; gRPC's threads send them."""

    send = None

    def __init__(self, channel: grpc.Channel, address: str, metadata: rpc.Metadata) -> None:
        self._channel = channel
        self._address = address
        self._metadata = metadata
        self._call: rpc.ResponseStream | None = None

    def __repr__(self) -> str:
        return f"<GrpcCarrier to {self._address}>"

    def start(self, messages: Iterator[Pieces], wake: Callable[[], None]) -> None:
        """Open the call."""
        del wake
        joined = map(b"".join, messages)
        self._call = rpc.open_stream(self._channel, "InferenceService.Session", joined, self._metadata)

    def receive(self) -> Iterator[WireBytes]:
        """Give the call's answers."""
        if self._call is None:
            return
        try:
            yield from self._call
        except grpc.RpcError as raised:
            raise rpc.error_from(raised, self._address) from None

    def cancel(self) -> None:
        """Cancel the call."""
        if self._call is not None:
            self._call.cancel()
