"""What is done before a model can run: it is compiled and checked, and its slots are made and warmed up: `Opened`.

All of it takes time and memory, and runs on threads. Knows neither devices nor queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inferwire_server.core.labels import check_labels
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.warm_up import zeros
from inferwire_server.engine.backend import Backend, CompiledModel
from inferwire_server.engine.model_slots import ModelSlots
from inferwire_server.engine.picture_models import PictureModel
from inferwire_server.engine.row_check import check_rows_are_independent
from inferwire_server.errors import ServingError, UnfitSetting


@dataclass(eq=False, slots=True)
class Opened:
    """A compiled model and its slots: what there is of a model while it can run, and what its memory goes with."""

    compiled: CompiledModel
    slots: ModelSlots

    def free(self) -> None:
        """Let go of both, for good. The larger a model is, the longer this takes: not for the loop.

        The slots go last. With the last of a model's requests OpenVINO frees it while other threads run Python; with
        the compiled model it would keep them from that.
        """
        del self.compiled
        self.slots.free()


def open_model(backend: Backend, source: Source, options: ModelOptions) -> Opened:
    """Compile a model, check its rows and make its slots."""
    compiled = backend.compile(source, options)
    if options.labels:
        check_labels(compiled.spec, options.labels)
    opened = Opened(compiled, ModelSlots.of(compiled, options.slots or compiled.optimal_slots))
    if options.batching is not None:
        check_rows_are_independent(compiled.spec, opened.slots[0], options.batching, compiled.properties)
    return opened


def warm_up(opened: Opened, shapes: Mapping[str, tuple[int, ...]]) -> None:
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


def taking_pictures(opened: Opened, options: ModelOptions) -> Opened:
    """Have a model take encoded pictures, where the options say so."""
    if not options.pictures:
        return opened
    # Rows were checked and zeros were run on pixels: neither of them is a picture.
    pictured = PictureModel(opened.compiled, options.pictures)
    return Opened(pictured, pictured.over(opened.slots))


def reopen(backend: Backend, source: Source, options: ModelOptions) -> Opened:
    """Open a model again that was unloaded as idle."""
    opened = open_model(backend, source, options)
    if options.warm_up is not None:
        warm_up(opened, options.warm_up)
    return taking_pictures(opened, options)
