"""Labels of a model's classes: whether they fit the model."""

from __future__ import annotations

from collections.abc import Sequence

from inferwire_server.core.specs import ModelSpec
from inferwire_server.errors import UnfitSetting


def check_labels(spec: ModelSpec, labels: Sequence[str]) -> None:
    """Refuse labels of which there are not as many as an output has classes.

    Raises:
        UnfitSetting: With the outputs' shapes.
    """
    lasts = [port.shape[-1] if port.shape else None for port in spec.outputs if port.shape != ()]
    if any(last is None or last.admits(len(labels)) for last in lasts):
        return
    shapes = ", ".join(f"'{port.oip_name}' {port.shape_text}" for port in spec.outputs)
    raise UnfitSetting(
        ["labels"],
        f"there are {len(labels)} labels, expected as many as the last dimension of an output has: {shapes}",
    )
