"""Turns the forms that callers want outputs in into transforms, which a slot applies to the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from inferwire_server.core.classes import top_classes
from inferwire_server.core.scheduling.job import Transform, Transforms
from inferwire_server.core.specs import PortSpec
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.models import Model
from inferwire_server.errors import invalid_input
from inferwire_server.service.shared_memory import SharedMemoryService
from inferwire_server.service.values import OutputForm, SharedPlace, TopClasses

_NO_NUMBERS = ("string", "boolean")


def transforms_of(
    model: Model, wanted: Sequence[int], forms: Mapping[int, OutputForm], shared_memory: SharedMemoryService
) -> Transforms:
    """Give the transform of each wanted output; None for those of which `forms` says nothing.

    Raises:
        ServingError: INVALID_INPUT for an output that cannot have the form.
    """
    made: list[Transform | None] = [None] * len(wanted)
    for position, form in forms.items():
        port = model.spec.outputs[wanted[position]]
        what = f"output '{port.oip_name}' of model '{model.name}'"
        match form:
            case TopClasses():
                made[position] = _classify(what, model, port, form)
            case SharedPlace():
                made[position] = shared_memory.write_to(form, what)
    shared_memory.check_apart(form for form in forms.values() if isinstance(form, SharedPlace))
    return tuple(made)


def _classify(what: str, model: Model, port: PortSpec, form: TopClasses) -> Transform:
    if port.element_type.oip is None or port.element_type.name in _NO_NUMBERS:
        raise invalid_input(
            f"{what} is asked for as classes, but has element type {port.element_type.name}, expected numbers"
        )

    is_batched = model.terms.batching is not None

    def classify(tensor: Tensor) -> Tensor:
        if not is_batched and tensor.shape[:1] == (1,):
            # Callers take the first dimension for a batch only where the model's configuration says that it batches.
            tensor = tensor._replace(shape=(prod(tensor.shape),))
        return top_classes(tensor, form.count, model.options.labels)

    return classify
