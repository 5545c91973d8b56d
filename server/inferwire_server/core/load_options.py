"""What a model configuration asks of a model: a caller's, over the settings that the model has, or its own file's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Settings of a model; what is None or empty stays as others say it.

    Attributes:
        device: What it is compiled for.
        slots: How many of its inferences run at once.
        version_policy: Which of its versions are served.
        shapes: Shapes of inputs, -1 for a dimension of any length.
        properties: OpenVINO's properties.
        max_batch: The most rows of a batch; up to 1 for no batches.
        max_batch_delay_us: How long few rows wait for more.
        preferred_batches: The sizes that runs take if they can.
        max_sequences: How many callers' states it keeps at once.
        sequence_idle_s: After how long without an inference a caller's states are freed.
        labels: The file that names its classes, beside its versions.
        file: The file of a version that is the model.
        warm_up: Shapes of the zeros that it runs before it is ready.
    """

    device: str | None = None
    slots: int | None = None
    version_policy: str | None = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    max_batch: int | None = None
    max_batch_delay_us: int | None = None
    preferred_batches: Sequence[int] = ()
    max_sequences: int | None = None
    sequence_idle_s: float | None = None
    labels: str | None = None
    file: str | None = None
    warm_up: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])

    def settings(self) -> dict[str, Any]:
        """Write them as the model's `inferwire.toml` would."""
        table: dict[str, Any] = {
            "device": self.device,
            "slots": self.slots,
            "version_policy": self.version_policy,
            "shapes": {name: list(shape) for name, shape in self.shapes.items()} or None,
            "properties": dict(self.properties) or None,
            "max_batch": self.max_batch,
            "max_batch_delay_us": self.max_batch_delay_us,
            "preferred_batches": list(self.preferred_batches) or None,
            "max_sequences": self.max_sequences,
            "sequence_idle_s": self.sequence_idle_s,
            "labels": self.labels,
            "file": self.file,
            "warm_up": {name: list(shape) for name, shape in self.warm_up.items()} or None,
        }
        return {name: value for name, value in table.items() if value is not None}
