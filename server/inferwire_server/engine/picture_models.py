"""Models whose callers send encoded pictures: the bytes come as strings and reach the model as pixels.

A slot decodes on its own thread, before its inference. To the rest of the server the input is one of strings.
The limits here are on all pictures of a call together; `picture_decoder` has those on one picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.layers import LayerTime, ModelGraph
from inferwire_server.core.model_options import Pictures
from inferwire_server.core.scheduling.job import Transforms
from inferwire_server.core.specs import ModelSpec, PortSpec
from inferwire_server.core.states import StateAccess
from inferwire_server.core.tensor_checks import strings_of
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import CompiledModel, Slot
from inferwire_server.engine.model_slots import ModelSlots
from inferwire_server.engine.picture_decoder import Pixels, Size, decode
from inferwire_server.errors import ServingError, UnfitSetting, invalid_input

READ_TOGETHER = 64
"""All files of an inference together may have this many times the pixels that one file may have.

Resized as the model takes them, which is what is held in memory, all pictures together may have as many pixels as one
file may have, or as one picture of the model's size has if that is more.
"""


class PictureModel:
    """A compiled model some of whose inputs take encoded pictures.

    Attributes:
        decoders: The decoders of these inputs, by the input's position.
        spec: What it takes and gives, with strings for the pictures.
    """

    def __init__(self, compiled: CompiledModel, pictures: Mapping[str, Pictures]) -> None:
        pixels = compiled.spec
        self._compiled = compiled
        self.devices = compiled.devices
        self.optimal_requests = compiled.optimal_requests
        self.optimal_slots = compiled.optimal_slots
        self.properties = compiled.properties
        ports = ((_input(pixels, name), rules) for name, rules in pictures.items())
        self.decoders = {pixels.inputs.index(port): PictureInput(pixels.name, port, rules) for port, rules in ports}
        inputs = tuple(
            self.decoders[index].encoded_port if index in self.decoders else port
            for index, port in enumerate(pixels.inputs)
        )
        self.spec: ModelSpec = replace(pixels, inputs=inputs)

    def create_slot(self, *, keeps_states: bool = False) -> PictureSlot:
        """Make a slot."""
        return PictureSlot(self._compiled.create_slot(keeps_states=keeps_states), self.decoders)

    def create_brief_slot(self) -> None:
        """Make none: decoding takes longer than anything on the loop may."""

    def layers(self) -> tuple[LayerTime, ...]:
        """List its layers, none of which has run."""
        return self._compiled.layers()

    def runtime_model(self) -> ModelGraph:
        """Describe the graph that its device runs, which takes pixels."""
        return self._compiled.runtime_model()

    def export(self) -> bytes:
        """Give it as a blob, which takes pixels: decoding is not part of it."""
        return self._compiled.export()

    def over(self, slots: Iterable[Slot]) -> ModelSlots:
        """Make the model's slots, each on top of one that takes pixels."""
        shared = [PictureSlot(slot, self.decoders) for slot in slots]
        return ModelSlots(shared, lambda: self.create_slot(keeps_states=True))


def _input(spec: ModelSpec, name: str) -> PortSpec:
    """Give the input of this name, or the only one where the name is empty."""
    if not name and len(spec.inputs) != 1:
        names = ", ".join(f"'{port.oip_name}'" for port in spec.inputs)
        raise ServingError(
            Code.MODEL_FAILED, f"preprocessing is for the only input of a model, expected one of {names} to be named"
        )
    return spec.input(name or 0)


class PictureSlot:
    """Decodes, then runs one inference at a time."""

    def __init__(self, slot: Slot, decoders: Mapping[int, PictureInput]) -> None:
        self._slot = slot
        self._decoders = decoders
        self._is_cancelled = False

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms = ()) -> tuple[Tensor, ...]:
        """Decode the pictures and run the inference.

        Raises:
            ServingError: INVALID_INPUT or TOO_LARGE for a picture; what the slot below raises.
        """
        self._is_cancelled = False
        decoded = [
            self._decoders[index].decode(tensor, self.check_is_wanted) if index in self._decoders else tensor
            for index, tensor in enumerate(inputs)
        ]
        self.check_is_wanted()
        return self._slot.run(decoded, outputs, transforms)

    def access(self, states: StateAccess) -> tuple[Tensor, ...]:
        """Read, write or reset states."""
        return self._slot.access(states)

    def cancel(self) -> None:
        """Stop before the next picture, and the inference if the device can."""
        self._is_cancelled = True
        self._slot.cancel()

    def profile(self) -> tuple[LayerTime, ...]:
        """Give what each layer took in the last run."""
        return self._slot.profile()

    def check_is_wanted(self) -> None:
        """Raise CANCELLED if the inference under way was cancelled."""
        if self._is_cancelled:
            raise ServingError(Code.CANCELLED, "the inference was cancelled")


class PictureInput:
    """One input that takes encoded pictures."""

    def __init__(self, model: str, port: PortSpec, pictures: Pictures) -> None:
        self._prefix = f"input '{port.oip_name}' of model '{model}'"
        self._element_type = port.element_type
        self._pictures = pictures
        shape = port.shape
        if shape is None or len(shape) != 4 or not shape[3].admits(3):
            raise self._refusal(f"takes shapes {port.shape_text}, expected batch, height, width and 3 colours")
        self._height, self._width = shape[1:3]
        is_static = self._height.is_static and self._width.is_static
        self._size: Size | None = (self._height.min, self._width.min) if is_static else None
        self._most_kept = max(pictures.max_pixels, prod(self._size or ()))
        if pictures.resize is not None and self._size is None:
            raise self._refusal(f"takes shapes {port.shape_text}, expected one height and width to resize to")
        self.encoded_port = replace(port, element_type=BY_NAME["string"], shape=shape[:1])

    def decode(self, tensor: Tensor, check: Callable[[], None]) -> Tensor:
        """Decode all pictures of a tensor into one of pixels. `check` is called before each, and may raise.

        Raises:
            ServingError: INVALID_INPUT or TOO_LARGE, naming the picture.
        """
        joined: list[Pixels] = []
        read = kept = 0
        most_read = READ_TOGETHER * self._pictures.max_pixels
        for index, content in enumerate(strings_of(self._prefix, tensor)):
            check()
            name = f"picture {index} of {self._prefix}"
            pixels, pixels_read = decode(name, content, self._pictures, self._size)
            self._check_size(name, pixels, joined)
            joined.append(pixels)
            read += pixels_read
            kept += pixels.shape[0] * pixels.shape[1]
            self._check_together(len(joined), kept, self._most_kept, "as the model takes them")
            self._check_together(len(joined), read, most_read, "in their files")
        return self._tensor(joined)

    def _check_size(self, name: str, pixels: Pixels, others: Sequence[Pixels]) -> None:
        height, width, _ = pixels.shape
        if not self._height.admits(height) or not self._width.admits(width):
            raise invalid_input(f"{name} has {width} x {height} pixels, expected {self._width} x {self._height}")
        if others and pixels.shape != others[0].shape:
            first_height, first_width, _ = others[0].shape
            raise invalid_input(
                f"{name} has {width} x {height} pixels, expected {first_width} x {first_height} as the one before"
            )

    def _check_together(self, count: int, pixels: int, most: int, where: str) -> None:
        if pixels > most:
            raise ServingError(
                Code.TOO_LARGE,
                f"the first {count} pictures of {self._prefix} have {pixels} pixels together {where}, expected at most "
                f"{most}; send fewer in one call, or set a larger max_pixels in its inferwire.toml",
            )

    def _tensor(self, joined: Sequence[Pixels]) -> Tensor:
        if not joined:
            height, width = self._size or (0, 0)
            return Tensor(self._element_type, (0, height, width, 3), b"")
        stacked = np.stack(joined) if len(joined) > 1 else np.ascontiguousarray(joined[0][None])
        return Tensor(self._element_type, stacked.shape, stacked.data.cast("B"))

    def _refusal(self, reason: str) -> ServingError:
        return UnfitSetting(["preprocessing"], f"{self._prefix} cannot take encoded pictures: it {reason}")
