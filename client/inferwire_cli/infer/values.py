"""Inputs from the command line, as the arrays that a model takes: files, pictures and JSON. Knows no server."""

from __future__ import annotations

import json
import os.path
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from inferwire.graph.described import PortDescription
from inferwire.values.partial_shape import PartialShape
from inferwire.values.types import Type
from inferwire_cli.infer.elements import MOST_BYTES, Array, as_texts, byte_size, typed, why_too_large
from inferwire_cli.infer.pictures import SUFFIXES, PixelOptions, read_picture
from inferwire_cli.terminal import CommandError, MisuseError
from inferwire_proto.host.bounded_files import read_bounded, why_not_read

_MOST_JSON_BYTES = 256 << 20
"""The largest JSON that is read: it takes ten times as much memory."""


def read_inputs(given: Sequence[str], ports: Sequence[PortDescription], options: PixelOptions) -> dict[int, Array]:
    """Read every input that was given, by its position.

    Raises:
        MisuseError: For an input that is not named, is missing or given twice.
        CommandError: For a value that cannot be read as what the input takes.
    """
    texts = assign(given, ports)
    return {at: read_value(text, ports[at], options) for at, text in texts.items()}


def assign(given: Sequence[str], ports: Sequence[PortDescription], flag: str = "-i") -> dict[int, str]:
    """Tell which input each value of a flag is for.

    Raises:
        MisuseError: For an input that is not named, or given twice.
    """
    positions = _positions(ports)
    texts: dict[int, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        at = positions.get(name) if equals else None
        if at is None:
            if len(ports) != 1 or (_may_be_named(text) and ports[0].element_type != Type.string):
                raise MisuseError(f"{flag} {text} names no input, expected NAME=... with one of {described(ports)}")
            at, value = 0, text
        if at in texts:
            raise MisuseError(f"input '{ports[at].oip_name}' is given twice")
        texts[at] = value
    return texts


def notes(given: Sequence[str], ports: Sequence[PortDescription]) -> list[str]:
    """Note for each text that is sent as it is, but may be meant as the name of an input or of a file."""
    if len(ports) != 1 or ports[0].element_type != Type.string:
        return []
    positions = _positions(ports)
    noted: list[str] = []
    for text in given:
        name, _, value = text.partition("=")
        sent = value if name in positions else text
        if missing := f"input '{name}'" if name not in positions and _may_be_named(text) else _missing_file(sent):
            noted.append(f"note: '{sent}' is sent as a text for input '{ports[0].oip_name}'; there is no {missing}")
    return noted


def pixel_notes(given: Sequence[str], ports: Sequence[PortDescription], options: PixelOptions) -> list[str]:
    """Note which options on pixels are without effect, as no input is a picture that is sent as pixels.

    Raises:
        MisuseError: For an input that is not named, or given twice.
    """
    options_by_flag = {"--mean": options.mean, "--scale": options.scale, "--bgr": options.is_bgr}
    flags = ", ".join(flag for flag, option in options_by_flag.items() if option)
    if not flags or any(_is_sent_as_pixels(text, ports[at]) for at, text in assign(given, ports).items()):
        return []
    return [f"note: without effect: {flags}; no input is a picture that is sent as pixels"]


def _is_sent_as_pixels(text: str, port: PortDescription) -> bool:
    return port.element_type != Type.string and Path(text).suffix.lower() in SUFFIXES and _is_file(text)


def _missing_file(text: str) -> str:
    """Name what is missing where a text ends as the files do that are read; empty if nothing is."""
    ends_as_files = text.lower().endswith((*SUFFIXES, ".npy", ".json"))
    return "such file" if ends_as_files and not _is_file(text) else ""


def _positions(ports: Sequence[PortDescription]) -> dict[str, int]:
    return {name: at for at, port in enumerate(ports) for name in (*port.names, port.oip_name)}


def _may_be_named(text: str) -> bool:
    """Whether the part before an equals sign may be meant as an input's name: texts and paths may have one, too."""
    name, equals, _ = text.partition("=")
    return bool(equals) and name.isidentifier() and not _is_file(text)


def require_all(values: Mapping[int, Array], ports: Sequence[PortDescription], model: str) -> None:
    """Refuse inputs that are not complete.

    Raises:
        MisuseError: Naming those that are missing.
    """
    missing = [port for at, port in enumerate(ports) if at not in values]
    if missing:
        raise MisuseError(f"model '{model}' needs {described(missing)}; inputs are given with -i")


def described(ports: Sequence[PortDescription]) -> str:
    """List ports in a sentence."""
    return ", ".join(f"'{port.oip_name}' {port.element_type.type_name}{port.partial_shape}" for port in ports)


def read_value(text: str, port: PortDescription, options: PixelOptions) -> Array:
    """Read one input.

    Raises:
        CommandError: If it cannot be read as what the input takes.
    """
    path = Path(text)
    is_text = port.element_type == Type.string
    if not _is_file(text):
        return _fitted(_from_text(text, port) if is_text else _from_json(text, port), port)
    if path.suffix.lower() == ".npy":
        return _fitted(_from_numpy_file(path, port), port)
    if path.suffix.lower() == ".json":
        return _fitted(_from_json_file(path, port), port)
    if is_text:
        return _fitted(_from_any_file(path), port)
    if _is_sent_as_pixels(text, port):
        return read_picture(path, port, options)
    raise CommandError(f"{path} is no picture, .npy or .json file, which input '{port.oip_name}' would take")


def _is_file(text: str) -> bool:
    return os.path.isfile(text)  # noqa: PTH113 - Path's own raises for texts that are too long for a path


def _from_numpy_file(path: Path, port: PortDescription) -> Array:
    try:
        with path.open("rb") as file:
            _check_header(file, path, port)
            file.seek(0)
            # numpy.load would also open archives, which are no arrays.
            return np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CommandError(
            f"{path} cannot be read as an array: {why_not_read(error)}; expected one as numpy.save writes it"
        ) from error


def _check_header(file: BinaryIO, path: Path, port: PortDescription) -> None:
    """Check an array's shape and type before it takes memory."""
    is_first = np.lib.format.read_magic(file) == (1, 0)
    read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    size = prod(shape) * dtype.itemsize if port.element_type == Type.string else byte_size(shape, port)
    if reason := why_too_large(size, port):
        raise CommandError(f"{path} {reason}")
    _fitted_shape(shape, port)


def _from_json_file(path: Path, port: PortDescription) -> Array:
    try:
        # Given bytes, it detects the encoding, and skips the byte order mark that files from Windows have.
        parsed = _parsed(read_bounded(path, _MOST_JSON_BYTES))
    except (OSError, ValueError) as error:
        raise CommandError(
            f"{path} cannot be read as JSON: {why_not_read(error)}; expected values or lists of them"
        ) from error
    return _as_array(parsed, port)


def _from_any_file(path: Path) -> Array:
    """Take a file's bytes as they are, such as an encoded picture: the model decodes them."""
    try:
        return np.array(read_bounded(path, MOST_BYTES), object)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {why_not_read(error)}") from error


def _from_text(text: str, port: PortDescription) -> Array:
    """Take a text as it is, unless it is JSON of one text or several: 42 is two characters here, and no number."""
    try:
        parsed = _parsed(text)
    except ValueError:
        parsed = text
    return _as_array(parsed if isinstance(parsed, str | list) else text, port)


def _from_json(text: str, port: PortDescription) -> Array:
    try:
        parsed = _parsed(text)
    except ValueError as error:
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        raise CommandError(f"input '{port.oip_name}' is {shown}, {_why_not_taken(text, error)}") from error
    return _as_array(parsed, port)


def _why_not_taken(text: str, error: ValueError) -> str:
    if text[:1] in tuple("[{"):
        return f"which is no JSON: {error}"
    if os.path.isdir(text):  # noqa: PTH112 - as above
        return "a folder, expected a file or JSON"
    is_there = os.path.exists(text)  # noqa: PTH110 - too
    return "a pipe or a device, expected a file or JSON" if is_there else "expected a file that exists, or JSON"


def _parsed(text: str | bytes) -> Any:
    """Read JSON.

    Raises:
        ValueError: If it is no JSON, or nested deeper than any array.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _as_array(parsed: Any, port: PortDescription) -> Array:
    if isinstance(parsed, dict):
        raise CommandError(
            f"input '{port.oip_name}' is a JSON object, expected numbers or lists of them; inputs are named as NAME=..."
        )
    try:
        return _unchanged(parsed)
    except ValueError as error:
        raise CommandError(f"input '{port.oip_name}' is no array: {error}") from error


def _unchanged(parsed: Any) -> Array:
    """Make an array of JSON whose elements mean what they did.

    Where there are texts among numbers, numpy would make texts of these, and where there are integers that only u64
    has among smaller ones, floats of all.
    """
    array = np.array(parsed)
    if array.dtype.kind == "U":
        given = np.array(parsed, object)
        return array if all(isinstance(each, str) for each in given.flat) else given
    if array.dtype.kind == "f" and (np.abs(array) >= 2**63).any():
        given = np.array(parsed, object)
        return given if all(type(each) is int for each in given.flat) else array
    return array


def _fitted(array: Array, port: PortDescription) -> Array:
    """Give an array the input's type, and a batch of one if only that dimension is missing.

    Raises:
        CommandError: If the input does not take its elements or its shape.
    """
    array = as_texts(array, port) if port.element_type == Type.string else typed(array, port)
    return array.reshape(_fitted_shape(array.shape, port))


def _fitted_shape(given: Sequence[int], port: PortDescription) -> Sequence[int]:
    expected = port.partial_shape
    lacks_batch = not expected.rank.is_dynamic and len(given) == expected.rank.get_length() - 1
    fitted = (1, *given) if lacks_batch else given
    if not expected.compatible(PartialShape(list(fitted))):
        lengths = ",".join(map(str, given))
        raise CommandError(f"input '{port.oip_name}' has shape [{lengths}], expected {expected}")
    return fitted
