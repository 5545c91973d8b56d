"""How long a client waits for a server that is silent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a server may be silent.

    Attributes:
        connect_s: Until it has answered a connection's first message.
        keepalive_s: While work is in flight, until it is asked whether it is still there.
        answer_s: Until it has answered that, after which everything that waits for it fails. On a slow network the
            answer comes behind data that is still on its way. gRPC also gives up a connection after this time if
            nothing of what it sends arrives.
        socket_s: Until it has answered at its socket, which may be out of reach even if gRPC is not.
    """

    connect_s: float = 5.0
    keepalive_s: float = 10.0
    answer_s: float = 20.0
    socket_s: float = 1.0

    @property
    def options(self) -> tuple[tuple[str, int], ...]:
        """The options of a gRPC channel that say the same."""
        return (
            ("grpc.keepalive_time_ms", int(self.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", int(self.answer_s * 1000)),
            # A keepalive ping must also keep to the limit of all pings, which is a minute unless it is set.
            ("grpc.http2.ping_timeout_ms", int(self.answer_s * 1000)),
        )
