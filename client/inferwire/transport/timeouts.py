"""How long a client waits for a server that is silent: `Timeouts`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Real

_LEAST_S, _MOST_S = 0.001, 2_000_000.0
"""What every system can wait for: gRPC counts milliseconds, in 32 bits."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a server may be silent, for `Core`; not in openvino.

    A server that is there may take as long as it needs to answer: `Scheduling` limits that.

    Example:
        >>> core = Core("gpu-box:8001", timeouts=Timeouts(connect_s=30))

    Args:
        connect_s: Until it has answered a connection's first message.
        keepalive_s: Until it is asked whether it is still there, whether or not work is in flight.
        answer_s: Until it has answered that, after which everything that waits for it fails. On a slow network the
            answer comes behind data that is still on its way. gRPC also gives up a connection after this time if
            nothing of what it sends arrives.
        socket_s: Until it has answered at its socket, which may be out of reach even if gRPC is not.

    Raises:
        TypeError: For what are no numbers.
        ValueError: For less than a millisecond, and for more than 2,000,000 seconds.
    """

    connect_s: float = 5.0
    keepalive_s: float = 10.0
    answer_s: float = 20.0
    socket_s: float = 1.0

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            given: object = getattr(self, name)
            if not isinstance(given, Real):
                raise TypeError(f"{name} is {given!r}, expected a number of seconds")
            if not _LEAST_S <= float(given) <= _MOST_S:
                raise ValueError(f"{name} is {given}, expected seconds from {_LEAST_S:g} to {_MOST_S:.0f}")
            object.__setattr__(self, name, float(given))

    @property
    def options(self) -> tuple[tuple[str, int], ...]:
        """The options of a gRPC channel that say the same."""
        return (
            ("grpc.keepalive_time_ms", int(self.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", int(self.answer_s * 1000)),
            # A keepalive ping must also keep to the limit of all pings, which is a minute unless it is set.
            ("grpc.http2.ping_timeout_ms", int(self.answer_s * 1000)),
        )
