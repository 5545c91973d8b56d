"""JPEG and PNG files to pixels, by Pillow.

Owns what a picture may be and how it is turned, coloured and resized. Blocks; knows no tensors and no models.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any, TypeAlias

import numpy as np
from PIL import Image, ImageOps

from inferwire_proto.errors import Code
from inferwire_server.core.model_options import Pictures
from inferwire_server.errors import ServingError, invalid_input

Pixels: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
"""Height, width and the three colours of RGB."""

Size: TypeAlias = tuple[int, int]
"""Height and width."""

FORMATS = ("JPEG", "PNG")

_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear_pillow": Image.Resampling.BILINEAR,
    "bicubic_pillow": Image.Resampling.BICUBIC,
}
_FROM_16_BITS = 1 / 256

_MOST_SCANS = 50
"""How many scans a JPEG may have. Encoders write a dozen. Each scan has the decoder visit all pixels, and may take no
more than ten bytes of the file."""

_START, _SCAN, _END = b"\xff\xd8", b"\xda", b"\xd9"
_MARKER = re.compile(rb"\xff([^\x00\x01\xff\xd0-\xd7])")
"""A marker that begins a segment of a JPEG which states its length, or ends the file. Compressed data has none."""

# Pillow's own limit warns and then refuses by a number of its own; ours is checked before any pixel is decoded.
Image.MAX_IMAGE_PIXELS = None


def decode(name: str, content: bytes, pictures: Pictures, size: Size | None) -> tuple[Pixels, int]:
    """Decode the picture of this name, upright and in RGB, and resize it to `size` if `pictures` say so.

    Also gives how many pixels the file has.

    Transparency is left out: the colours are those that the file has below it.

    Raises:
        ServingError: INVALID_INPUT for what is no whole JPEG or PNG file, or takes far longer than others of its size;
            TOO_LARGE for too many pixels, before anything is decoded.
    """
    try:
        with Image.open(BytesIO(content), formats=FORMATS) as image:
            _check_size(name, image, pictures.max_pixels)
            if image.format != "PNG":
                _check_scans(name, content)
            upright = _as_rgb(ImageOps.exif_transpose(image))
    except ServingError:
        raise
    except Image.UnidentifiedImageError as error:
        raise invalid_input(f"{name} is no JPEG or PNG file") from error
    except Exception as error:  # a decoder has many ways to say that a file is broken
        raise invalid_input(f"{name} cannot be decoded: {error}") from error
    in_file = upright.width * upright.height
    if pictures.resize is not None and size is not None and (upright.height, upright.width) != size:
        upright = upright.resize((size[1], size[0]), _RESAMPLING[pictures.resize])
    return np.asarray(upright), in_file


def _check_size(name: str, image: Image.Image, most: int) -> None:
    if image.width * image.height > most:
        sentence = f"{name} has {image.width} x {image.height} pixels, expected at most {most}"
        raise ServingError(Code.TOO_LARGE, sentence)


def _check_scans(name: str, content: bytes) -> None:
    if content.count(b"\xff" + _SCAN) > _MOST_SCANS and (scans := _scans(content)) > _MOST_SCANS:
        raise invalid_input(f"{name} has {scans} scans, expected at most {_MOST_SCANS}")


def _scans(content: bytes) -> int:
    """Count the scans of a JPEG. Bytes that look like one elsewhere, as in a thumbnail or after the end, are none."""
    scans, at = 0, len(_START)
    while (marker := _MARKER.search(content, at)) is not None and (kind := marker[1]) != _END:
        scans += kind == _SCAN
        at = marker.end() + int.from_bytes(content[marker.end() : marker.end() + 2])
    return scans


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        # Pillow would clip all values to 255, which makes a 16-bit picture white.
        image = Image.fromarray((np.asarray(image) * _FROM_16_BITS).astype(np.uint8))
    if image.mode == "P":
        # Straight to RGB, a palette with transparency would lose it with a warning.
        image = image.convert("RGBA")
    return image.convert("RGB")
