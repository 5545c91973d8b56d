"""Two ways to read a page on a server: one that sends everything back and forth, and one that leaves it there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lines import Box, find_lines

import inferwire as ov
from inferwire.preprocess import ColorFormat, PrePostProcessor, ResizeAlgorithm

HERE = Path(__file__).parent
Array = np.ndarray[Any, Any]

LINE_HEIGHT = 48
LINE_WIDTHS = (96, 160, 240, 320, 480, 640, 960)
"""The recognizer is compiled for lines of these widths; each line is resized to the one that distorts it least."""

F32 = {"INFERENCE_PRECISION_HINT": "f32"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text, where it is, and how sure the recognizer is of its letters."""

    box: Box
    text: str
    score: float


class Reader(ABC):
    """Detects lines and recognizes each of them. What differs is where the tensors between the stages are.

    Args:
        core: The server.
        models: The folder with PP-OCR's detector and recognizer.
        page: u8 [1, height, width, 3], RGB.
    """

    def __init__(self, core: ov.Core, models: Path, page: Array) -> None:
        self.page = page
        _, height, width, _ = page.shape
        recognizer = core.read_model(models / "PP-OCRv6_rec_small.onnx")
        alphabet = recognizer.get_rt_info(["framework", "character"]).astype(str)
        self._letters = ["", *alphabet.split("\n"), " "]
        detector = prepared(core.read_model(models / "PP-OCRv6_det_small.onnx"), down(height), down(width))
        self.detector = core.compile_model(detector, "CPU", F32).create_infer_request()
        self.recognizers = {
            line_width: core.compile_model(prepared(recognizer.clone(), LINE_HEIGHT, line_width), "CPU", F32)
            for line_width in LINE_WIDTHS
        }

    def read(self) -> list[Line]:
        """Read the page."""
        _, height, width, _ = self.page.shape
        mask = self.text_mask()
        boxes = [scaled(box, mask.shape, (height, width)).grown(width, height) for box in find_lines(mask)]
        return [self._line(box) for box in boxes]

    def _line(self, box: Box) -> Line:
        wanted = LINE_HEIGHT * box.width / box.height
        width = min(LINE_WIDTHS, key=lambda each: abs(np.log(each / wanted)))
        letters, scores = self.best_letters(self.recognizers[width], box)
        is_new = np.diff(letters, prepend=0) != 0
        kept = is_new & (letters != 0)
        text = "".join(self._letters[letter] for letter in letters[kept])
        return Line(box, text, float(scores[kept].mean()) if kept.any() else 0.0)

    @abstractmethod
    def text_mask(self) -> Array:
        """Detect text: a mask [height, width], whose sides are multiples of 32."""

    @abstractmethod
    def best_letters(self, recognizer: ov.CompiledModel, box: Box) -> tuple[Array, Array]:
        """Recognize a line: the number of a letter, 0 for none, and its score at each place."""


class NaiveReader(Reader):
    """Each stage's input is sent, and its output is fetched."""

    def text_mask(self) -> Array:
        """Send the page, fetch the probabilities and compare them here."""
        return self.detector.infer(self.page)[0][0, 0] > 0.3

    def best_letters(self, recognizer: ov.CompiledModel, box: Box) -> tuple[Array, Array]:
        """Cut the line out here, send it, and fetch the scores of all letters."""
        crop = self.page[:, box.top : box.bottom, box.left : box.right]
        scores = recognizer(crop)[0][0]
        return scores.argmax(axis=-1), scores.max(axis=-1)


class CascadeReader(Reader):
    """The page is sent once. Every stage reads on the server what the one before has left there."""

    def __init__(self, core: ov.Core, models: Path, page: Array) -> None:
        super().__init__(core, models, page)
        context = core.get_default_context("CPU")
        self._picture = context.create_tensor(ov.Type.u8, page.shape, {})
        self._mask = core.compile_model(HERE / "text_mask.xml", "CPU").create_infer_request()
        self._best = core.compile_model(HERE / "best_letters.xml", "CPU", F32).create_infer_request()
        self._requests = {width: model.create_infer_request() for width, model in self.recognizers.items()}
        self.detector.set_input_tensor(self._picture)
        self._mask.set_input_tensor(self.detector.get_output_tensor())

    def read(self) -> list[Line]:
        """Send the page and read it."""
        self._picture.copy_from(ov.Tensor(self.page))
        return super().read()

    def text_mask(self) -> Array:
        """Have the server detect and compare; fetch a byte for each pixel."""
        self.detector.infer()
        return self._mask.infer()[0][0, 0]

    def best_letters(self, recognizer: ov.CompiledModel, box: Box) -> tuple[Array, Array]:
        """Have the server cut the line out and recognize it; fetch the best letter of each place."""
        request = next(self._requests[width] for width, model in self.recognizers.items() if model is recognizer)
        begin, end = [0, box.top, box.left, 0], [1, box.bottom, box.right, 3]
        request.set_input_tensor(ov.RemoteTensor(self._picture, begin, end))
        self._best.set_input_tensor(request.get_output_tensor())
        request.infer()
        results = self._best.infer()
        return results["letter"].reshape(-1), results["score"].reshape(-1)


def prepared(model: ov.Model, height: int, width: int) -> ov.Model:
    """Have a model take RGB pixels of any size: u8 [1, ?, ?, 3]."""
    steps = PrePostProcessor(model)
    tensor = steps.input().tensor()
    tensor.set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
    tensor.set_color_format(ColorFormat.RGB).set_spatial_dynamic_shape()
    steps.input().model().set_layout(ov.Layout("NCHW"))
    process = steps.input().preprocess()
    process.convert_color(ColorFormat.BGR).convert_element_type(ov.Type.f32)
    process.resize(ResizeAlgorithm.RESIZE_LINEAR, height, width).mean(127.5).scale(127.5)
    return steps.build()


def down(size: int) -> int:
    """Give the multiple of 32 that the detector looks at."""
    return max(32, size // 32 * 32)


def scaled(box: Box, from_size: Sequence[int], to_size: Sequence[int]) -> Box:
    """Give a box in a picture of another size."""
    vertical, horizontal = to_size[0] / from_size[0], to_size[1] / from_size[1]
    return Box(
        int(box.left * horizontal),
        int(box.top * vertical),
        int(box.right * horizontal),
        int(box.bottom * vertical),
    )
