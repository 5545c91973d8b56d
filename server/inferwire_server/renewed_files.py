"""What operators watch of the files that are read again while the server serves."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class RenewedFiles:
    """What has become of them.

    Attributes:
        refused: By what they hold, whether those that are there now cannot be used, and what was read before goes on.
        certificate_ends_at: When the certificate that is shown ends, in seconds since the epoch; None where there is
            none, or it does not say so as others do.
    """

    refused: dict[str, bool] = field(default_factory=dict[str, bool])
    certificate_ends_at: float | None = None

    @contextmanager
    def reading(self, what: str) -> Generator[None]:
        """Note whether files are refused, as they are where reading them raises."""
        try:
            yield
        except Exception:
            self.refused[what] = True
            raise
        self.refused[what] = False
