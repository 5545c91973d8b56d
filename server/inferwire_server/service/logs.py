"""Which events are logged: callers may ask for the level and, if that is allowed, change it."""

from __future__ import annotations

from collections.abc import Callable

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError


class LogService:
    """The level of the process' log, which `read` gives and `write` sets. Callers may set it if that `is_allowed`."""

    def __init__(self, read: Callable[[], str], write: Callable[[str], None], *, is_allowed: bool) -> None:
        self._read = read
        self._write = write
        self._is_allowed = is_allowed

    def __repr__(self) -> str:
        return f"<LogService: {self.level}>"

    @property
    def level(self) -> str:
        """The least level that is logged."""
        return self._read()

    def set_level(self, level: str) -> None:
        """Log from this level on.

        Raises:
            ServingError: PERMISSION_DENIED.
        """
        if not self._is_allowed:
            raise ServingError(
                Code.PERMISSION_DENIED,
                "log settings may not be changed; start the server with --allow-log-settings to allow it",
            )
        self._write(level)
