"""Labels of a model's classes: whether they fit the model."""

from __future__ import annotations

from collections.abc import Sequence

from inferwire_server.core.specs import ModelSpec, PortSpec
from inferwire_server.errors import UnfitSetting


def labels_fit(port: PortSpec, labels: Sequence[str]) -> bool:
    """Whether an output may have as many classes as there are labels: in its last dimension."""
    if port.shape is None:
        return True
    return port.shape != () and port.shape[-1].admits(len(labels))


def check_labels(spec: ModelSpec, labels: Sequence[str]) -> None:
    """Refuse labels if no output has as many classes as there are labels.

    Raises:
        UnfitSetting: With the outputs' shapes.
    """
    if any(labels_fit(port, labels) for port in spec.outputs):
        return
    shapes = ", ".join(f"'{port.oip_name}' {port.shape_text}" for port in spec.outputs)
    raise UnfitSetting(
        ["labels"],
        f"there are {len(labels)} labels, expected as many as the last dimension of an output has: {shapes}",
    )
