"""What is asked of a model's batching, until it is whole: one says how many rows, another how long they wait."""

from __future__ import annotations

from dataclasses import dataclass

from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.errors import invalid_input


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """What one of those says who may: the server's flags, a model's settings, whoever compiles it; None for nothing.

    Attributes:
        max_batch: The most rows of one inference; up to 1 for no batches.
        max_batch_delay_us: How long few rows wait for more.
        preferred_batches: The sizes that runs take if they can.
    """

    max_batch: int | None = None
    max_batch_delay_us: int | None = None
    preferred_batches: tuple[int, ...] | None = None

    def over(self, below: BatchOptions) -> BatchOptions:
        """Give these, and where they say nothing, those below."""
        return BatchOptions(
            below.max_batch if self.max_batch is None else self.max_batch,
            below.max_batch_delay_us if self.max_batch_delay_us is None else self.max_batch_delay_us,
            below.preferred_batches if self.preferred_batches is None else self.preferred_batches,
        )

    def batching(self) -> Batching | None:
        """Say how jobs are put together; None if they are not.

        Raises:
            ServingError: INVALID_INPUT if what is said does not go together.
        """
        if self.max_batch is None:
            for name in ("max_batch_delay_us", "preferred_batches"):
                if getattr(self, name):
                    raise invalid_input(f"{name} is set without max_batch, the most rows of one inference")
            return None
        if self.max_batch <= 1:
            return None
        return Batching(self.max_batch, (self.max_batch_delay_us or 0) / 1e6, self.preferred_batches or ())
