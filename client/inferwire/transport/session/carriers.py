"""Carriers of a session's messages: the `Carrier` protocol, and `GrpcCarrier`, which works on every connection.

Owns what a session's stream may ask of a carrier. Knows nothing of what the messages say. The other carrier, over a
plain socket, is in `socket_carrier`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Protocol, TypeAlias

import grpc

from inferwire.transport import rpc
from inferwire.transport.executions import WireBytes

Pieces: TypeAlias = Sequence[WireBytes]
"""One message's bytes, in pieces that are not joined yet."""


class Carrier(Protocol):
    """Carries messages both ways, until either side ends it."""

    @property
    def send(self) -> Callable[[Pieces, list[int]], None] | None:
        """Sends a message from the calling thread, without waiting. If that fails, `receive` raises.

        Appends to the list how many bytes went at once. If the call is interrupted, as by Ctrl-C, the list tells what
        became of the message: if it has a number, the rest will follow; if it is empty, nothing went, or the carrier
        ends.

        None if the carrier sends only the messages that `start` was given.
        """
        ...

    def start(self, messages: Iterator[Pieces], wake: Callable[[], None]) -> None:
        """Start to send the messages; after the last one, tell the server that no more come.

        `wake` makes an iterator that waits for a message return. It then yields one without pieces, to be skipped.
        """
        ...

    @property
    def has_come(self) -> Callable[[], object] | None:
        """Says whether anything has come that `receive` has not taken, without waiting; None if nobody can tell."""
        ...

    def receive(self) -> Generator[WireBytes | None]:
        """Yield the messages that arrive, until the server ends the stream; None where a message has not all come.

        For one thread at a time.

        Raises:
            InferwireError: If the stream ends with an error.
            ValueError: If received bytes cannot be decoded.
        """
        ...

    def cancel(self) -> None:
        """End both directions now. Safe to call from a destructor."""
        ...


class GrpcCarrier:
    """Carries messages on the stream of a gRPC call; gRPC's threads send them."""

    send = None
    has_come = None

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

    def receive(self) -> Generator[WireBytes]:
        """Yield the call's answers."""
        if self._call is None:
            return
        with rpc.as_own_errors(self._address):
            yield from self._call

    def cancel(self) -> None:
        """Cancel the call."""
        if self._call is not None:
            rpc.cancel(self._call)
