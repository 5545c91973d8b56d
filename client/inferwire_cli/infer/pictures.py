"""A picture file as the array that a model's input takes. Knows no server."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from inferwire.graph.described import PortDescription
from inferwire.values.partial_shape import PartialShape
from inferwire_cli.infer.elements import Array, typed
from inferwire_cli.terminal import CommandError, MisuseError
from inferwire_proto.host.bounded_files import why_not_read

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff")


@dataclass(frozen=True, slots=True)
class PixelOptions:
    """What to do to pixels before they are sent; numbers are as they were written, "127" or "123.7,116.3,103.5"."""

    mean: str = ""
    scale: str = ""
    is_bgr: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """How an input takes pictures; a height or width of None is the picture's own."""

    channels: int
    height: int | None
    width: int | None
    is_channels_first: bool
    has_batch: bool


def read_picture(path: Path, port: PortDescription, options: PixelOptions) -> Array:
    """Read a picture, resize it for the input, and lay it out as the input takes it.

    Raises:
        CommandError: If it cannot be read, or the input takes no pictures.
    """
    form = form_of(port)
    pixels = _numbers(_resized(path, form), options, port)
    if options.is_bgr:
        pixels = pixels[..., ::-1]
    if form.is_channels_first:
        pixels = pixels.transpose(2, 0, 1)
    return np.ascontiguousarray(pixels[np.newaxis] if form.has_batch else pixels)


def form_of(port: PortDescription) -> Form:
    """Tell height, width and channels of an input by its shape: channels are one or three.

    Raises:
        CommandError: If the input is not of such a shape.
    """
    lengths = _lengths(port.partial_shape)
    if len(lengths) in (3, 4):
        inner = lengths[-3:]
        for at, is_first in ((0, True), (2, False)):
            channels = inner[at]
            if channels in (1, 3):
                height, width = inner[1:] if is_first else inner[:2]
                return Form(channels, height, width, is_first, has_batch=len(lengths) == 4)
    raise CommandError(
        f"input '{port.oip_name}' takes {port.element_type.type_name}{port.partial_shape}, expected [N,C,H,W] or "
        "[N,H,W,C] with one or three channels for a picture; give an array as .npy or JSON"
    )


def _lengths(shape: PartialShape) -> list[int | None]:
    if shape.rank.is_dynamic:
        return []
    return [dimension.min_length if dimension.is_static else None for dimension in shape]


def _resized(path: Path, form: Form) -> Array:
    try:
        with warnings.catch_warnings():
            # Pillow warns of large pictures, but this one is the caller's own.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path) as picture:
                upright = ImageOps.exif_transpose(picture).convert("RGB" if form.channels == 3 else "L")
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise CommandError(f"picture {path} cannot be read: {why_not_read(error)}") from error
    size = (form.width or upright.width, form.height or upright.height)
    pixels = np.asarray(_cut(upright, size).resize(size, Image.Resampling.BICUBIC))
    return pixels if form.channels == 3 else pixels[..., np.newaxis]


def _cut(picture: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Cut out the largest part around the middle that has the proportions of a size."""
    scale = min(picture.width / size[0], picture.height / size[1])
    width, height = round(size[0] * scale), round(size[1] * scale)
    left, top = (picture.width - width) // 2, (picture.height - height) // 2
    return picture.crop((left, top, left + width, top + height))


def _numbers(pixels: Array, options: PixelOptions, port: PortDescription) -> Array:
    if not (options.mean or options.scale):
        return typed(pixels, port)
    if not port.element_type.real:
        raise MisuseError(
            f"input '{port.oip_name}' takes {port.element_type.type_name}, expected a type of floating-point numbers "
            "for --mean and --scale"
        )
    channels = pixels.shape[-1]
    mean = _per_channel("--mean", options.mean, 0.0, channels)
    scale = _per_channel("--scale", options.scale, 1.0, channels)
    return typed((pixels.astype(np.float32) - mean) / scale, port)


def _per_channel(flag: str, text: str, default: float, channels: int) -> Array:
    try:
        numbers = [float(part) for part in text.split(",")] if text else [default]
    except ValueError:
        numbers = []
    with np.errstate(over="ignore"):
        found = np.array(numbers, np.float32)
    if flag == "--scale" and not found.all():
        raise MisuseError(f"{flag} is '{text}', expected numbers other than 0")
    if len(numbers) not in (1, channels) or not np.isfinite(found).all():
        expected = "a number or three, as in 123.7,116.3,103.5" if channels == 3 else "a number for the one channel"
        raise MisuseError(f"{flag} is '{text}', expected {expected}")
    return found
