"""Opens a model so that it can run: compiles and checks it, makes its slots and warms them up.

All of this takes time and memory, and runs on threads. Knows neither devices nor queues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from inferwire_server.core.labels import check_labels
from inferwire_server.core.model_options import ModelOptions, Pictures, Source
from inferwire_server.core.warm_up import zeros
from inferwire_server.engine.backend import Backend, CompiledModel
from inferwire_server.engine.model_slots import ModelSlots
from inferwire_server.engine.picture_models import PictureModel
from inferwire_server.engine.row_check import check_rows_are_independent
from inferwire_server.errors import ServingError, UnfitSetting, without_values


@dataclass(eq=False, slots=True)
class Opened:
    """A compiled model and its slots: all of a model that takes memory, and exists only while the model can run."""

    compiled: CompiledModel
    slots: ModelSlots

    def free(self) -> None:
        """Let go of both for good. This takes longer the larger a model is: too long for the event loop.

        The slots go last. OpenVINO frees a model with the last reference to it: if a request holds that reference,
        other threads can run Python meanwhile, but if the compiled model holds it, they cannot.
        """
        del self.compiled
        self.slots.free()


def open_model(
    backend: Backend, source: Source, options: ModelOptions, on_warming: Callable[[], object] = lambda: None
) -> Opened:
    """Compile a model, check it, make its slots, and if the options say so call `on_warming` and warm the slots up.

    What is refused with a ServingError is freed before this raises.

    Raises:
        ServingError: MODEL_FAILED with the runtime's reason, or why it cannot be batched; UnfitSetting where one of the
            operator's settings does not fit the model.
    """
    try:
        return _open(backend, source, options, on_warming)
    except ServingError as error:
        raise without_values(error) from None


def _open(backend: Backend, source: Source, options: ModelOptions, on_warming: Callable[[], object]) -> Opened:
    compiled = backend.compile(source, options)
    if options.labels:
        check_labels(compiled.spec, options.labels)
    opened = Opened(compiled, ModelSlots.of(compiled, options.slots or compiled.optimal_slots))
    if options.batching is not None:
        check_rows_are_independent(compiled.spec, opened.slots[0], options.batching, compiled.properties)
    if options.warm_up is not None:
        on_warming()
        _warm_up(opened, options.warm_up)
    # Only now, because the row check and the warm-up run made-up pixels, which are no encoded pictures.
    return _taking_pictures(opened, options.pictures) if options.pictures else opened


def _warm_up(opened: Opened, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Run every slot once, past the device's queue: these runs are no jobs."""
    spec = opened.compiled.spec
    try:
        inputs, outputs = zeros(spec, shapes), spec.select(())
        for slot in opened.slots:
            slot.run(inputs, outputs)
        if opened.slots.brief is not None:
            opened.slots.brief.try_out(inputs, outputs)
    except ServingError as error:
        raise UnfitSetting(["warm_up"], f"it does not warm up: {error.message}") from error
    except (MemoryError, OverflowError) as error:
        raise UnfitSetting(["warm_up"], "there is no memory for zeros of these shapes") from error


def _taking_pictures(opened: Opened, pictures: Mapping[str, Pictures]) -> Opened:
    pictured = PictureModel(opened.compiled, pictures)
    return Opened(pictured, pictured.over(opened.slots))
