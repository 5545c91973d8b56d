"""What is done before a model can run: it is compiled and checked, and its slots are made and warmed up.

All of it takes time and memory, and runs on threads. Knows neither devices nor queues.
"""

from __future__ import annotations

from collections.abc import Mapping

from inferwire_server.core.labels import check_labels
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.specs import ModelSpec
from inferwire_server.core.warm_up import zeros
from inferwire_server.engine.backend import Backend, CompiledModel
from inferwire_server.engine.model_slots import ModelSlots
from inferwire_server.engine.picture_models import PictureModel
from inferwire_server.engine.row_check import check_rows_are_independent
from inferwire_server.errors import ServingError, UnfitSetting


def open_model(backend: Backend, source: Source, options: ModelOptions) -> tuple[CompiledModel, ModelSlots, str]:
    """Compile a model, check its rows and make its slots. Give both, and the device that it queues on."""
    compiled = backend.compile(source, options)
    if options.labels:
        check_labels(compiled.spec, options.labels)
    slots = ModelSlots.of(compiled, options.slots or compiled.optimal_slots)
    if options.batching is not None:
        check_rows_are_independent(compiled.spec, slots[0], options.batching, compiled.properties)
    # A model for several devices waits in the queue of the first: that is where it starts.
    return compiled, slots, compiled.devices[0]


def warm_up(spec: ModelSpec, slots: ModelSlots, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Run every slot once, past the device's queue: these runs are no jobs."""
    try:
        inputs, outputs = zeros(spec, shapes), spec.select(())
        for slot in slots:
            slot.run(inputs, outputs)
        if slots.quick is not None:
            slots.quick.try_out(inputs, outputs)
    except ServingError as error:
        raise UnfitSetting(["warm_up"], f"it does not warm up: {error.message}") from error


def taking_pictures(
    compiled: CompiledModel, slots: ModelSlots, options: ModelOptions
) -> tuple[CompiledModel, ModelSlots]:
    """Have a model take encoded pictures, where the options say so."""
    if not options.pictures:
        return compiled, slots
    # Rows were checked and zeros were run on pixels: neither of them is a picture.
    pictured = PictureModel(compiled, options.pictures)
    return pictured, pictured.over(slots)


def reopen(backend: Backend, source: Source, options: ModelOptions) -> tuple[CompiledModel, ModelSlots]:
    """Open a model again that was unloaded as idle."""
    compiled, slots, _ = open_model(backend, source, options)
    if options.warm_up is not None:
        warm_up(compiled.spec, slots, options.warm_up)
    return taking_pictures(compiled, slots, options)
