"""Photos in, class names out: what a classifier's client does around the inference. Knows no server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Floats = NDArray[np.float32]

SIDE = 224
"""Width and height of EfficientNet-Lite0's input, in pixels."""


@dataclass(frozen=True, slots=True)
class Photo:
    """A photo as the model takes it: f32[1,3,224,224], RGB, (x - 127) / 128."""

    name: str
    pixels: Floats


@dataclass(frozen=True, slots=True)
class Guess:
    """One class the model sees in a photo, with its probability from 0 to 1."""

    label: str
    probability: float


def load_photo(path: Path) -> Photo:
    """Read a photo, cut out its middle square and scale it to the model's size."""
    with Image.open(path) as picture:
        rgb = picture.convert("RGB")
    side = min(rgb.size)
    left, top = (rgb.width - side) // 2, (rgb.height - side) // 2
    square = rgb.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    channels_last: Floats = (np.asarray(square, np.float32) - np.float32(127)) / np.float32(128)
    return Photo(path.name, np.ascontiguousarray(channels_last.transpose(2, 0, 1)[np.newaxis]))


def best_guesses(logits: Floats, labels: list[str], count: int = 3) -> list[Guess]:
    """Turn one photo's logits f32[1,1000] into its most probable classes, the best first."""
    powers = np.exp(logits[0] - logits[0].max())
    probabilities = powers / powers.sum()
    best: list[int] = np.argsort(probabilities)[::-1][:count].tolist()
    return [Guess(labels[index], float(probabilities[index])) for index in best]
