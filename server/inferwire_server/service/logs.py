"""Which events are logged: what callers may ask, and where it is allowed may change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError


@dataclass(frozen=True, slots=True)
class LogControl:
    """How the least level that is logged is read and written, and whether callers may set it."""

    read: Callable[[], str]
    write: Callable[[str], None]
    is_allowed: bool


class LogService:
    """The level of the process' log."""

    def __init__(self, control: LogControl) -> None:
        self._control = control

    def __repr__(self) -> str:
        return f"<LogService: {self.level}>"

    @property
    def level(self) -> str:
        """The least level that is logged."""
        return self._control.read()

    def set_level(self, level: str) -> None:
        """Log from this level on.

        Raises:
            ServingError: PERMISSION_DENIED.
        """
        if not self._control.is_allowed:
            raise ServingError(
                Code.PERMISSION_DENIED,
                "log settings may not be changed; start the server with --allow-log-settings to allow it",
            )
        self._control.write(level)
