"""How long a client waits for a server that is silent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a server may be silent.

    Attributes:
        connect_s: Until it has answered a connection's first message.
        keepalive_s: While work is in flight, until it is asked whether it is still there.
        answer_s: Until it has answered that; what waits for it then fails. The answer comes behind what a slow network
            has yet to bring, and gRPC gives up a network as soon that brings nothing of what is sent.
        socket_s: Until it has answered at its socket, which may be out of reach where gRPC is not.
    """

    connect_s: float = 5.0
    keepalive_s: float = 10.0
    answer_s: float = 20.0
    socket_s: float = 1.0

    @property
    def options(self) -> tuple[tuple[str, int], ...]:
        """Say it to gRPC."""
        return (
            ("grpc.keepalive_time_ms", int(self.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", int(self.answer_s * 1000)),
            # A keepalive's ping is a ping like any other, and those have a minute.
            ("grpc.http2.ping_timeout_ms", int(self.answer_s * 1000)),
        )
