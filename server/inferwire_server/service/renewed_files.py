"""What operators watch of the files that are read again while the server serves."""

from __future__ import annotations

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
