"""Model files on this machine, read for upload.

Finds the files that make a model, reads and hashes them; knows no server.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, TypeAlias

from inferwire.errors import ModelFailed
from inferwire.models.onnx_files import external_files
from inferwire.tensors.tensor import Tensor, as_tensor
from inferwire.transport.descriptions import Blob, Blobs, ModelContents, ModelSource, Preprocessing
from inferwire.transport.executions import WireBytes
from inferwire.values.partial_shape import PartialShape
from inferwire_proto.model_formats import SAVED_MODEL, WEIGHTS_SUFFIXES

_OF_MEMORY = r"\1. Please check if the model format is supported and model is correct."
"""What openvino says of a model that it was given as bytes, which has no name."""

_LONGEST_SHOWN = 255
"""How much of a path is shown: a longer text is no path, but perhaps that of a model, of any size."""

_AS_IT_IS: Mapping[str, PartialShape] = {}

Weights: TypeAlias = str | os.PathLike[str] | bytes | io.BytesIO | Tensor | None


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What is uploaded for one model.

    Attributes:
        model: The model file.
        weights: The weights; None if the format has them inside.
        suffix: The model file's ending, as ".onnx"; ".xml" for IR that came from memory.
        variables: The files with the variables of a TensorFlow SavedModel, by their paths in its folder; those in which
            an ONNX model keeps tensors, by their paths beside it.
        path: Where the user has it; "" for a model that came from memory.
        again: Reads the files once more, if all of them came from files; None if some came from memory.
    """

    model: Blob
    weights: Blob | None
    suffix: str
    variables: Mapping[str, Blob] = field(default_factory=dict[str, Blob])
    path: str = ""
    again: Callable[[], Blobs] | None = None

    def _in_own_words(self, text: str) -> str:
        """Put the user's own file into a server's message about an upload, in place of the name that it made up."""
        made_up = f'"model{self.suffix}"'
        if self.path:
            return text.replace(made_up, f'"{self.path}"')
        return re.sub(f"(Unable to read the model): {re.escape(made_up)} .* is correct\\.", _OF_MEMORY, text)

    def blobs(self) -> Blobs:
        """List the files."""
        weights = () if self.weights is None else (self.weights,)
        return (self.model, *self.variables.values(), *weights)

    def contents(
        self, reshape: Mapping[str, PartialShape] = _AS_IT_IS, preprocessing: tuple[Preprocessing, ...] = ()
    ) -> ModelContents:
        """Give what a server makes the model of, with new shapes of inputs and the edits to build into it."""
        source = ModelSource(
            model=self.model.sha256,
            weights=b"" if self.weights is None else self.weights.sha256,
            suffix=self.suffix,
            reshape=reshape,
            variables={path: blob.sha256 for path, blob in self.variables.items()},
            preprocessing=preprocessing,
        )
        return ModelContents(source, self.blobs(), self.again or self.blobs)

    @contextmanager
    def told_in_own_words(self) -> Generator[None]:
        """Have a server's errors about the files, if it raises any inside, name the user's own file."""
        try:
            yield
        except ModelFailed as error:
            raise ModelFailed(self._in_own_words(str(error)), error.retry_after_s) from None


def read_files(model: Any, weights: Weights = None) -> ModelFiles:
    """Read a model from a path, from bytes, or from XML text with weights; an empty path to weights means none.

    Raises:
        TypeError: For anything else.
        RuntimeError: For a file that is not there.
    """
    weights = None if isinstance(weights, str) and not weights else as_tensor(weights) or weights
    if isinstance(model, io.BytesIO):
        model = model.getvalue()
    if isinstance(model, str) and weights is not None and model.lstrip().startswith("<"):
        model = model.encode()
    if isinstance(model, bytes):
        blob = _weights(weights)
        return ModelFiles(Blob.of(model), blob, _suffix_in_memory(model, has_weights=blob is not None))
    if isinstance(model, str | os.PathLike):
        if not os.fspath(model):  # pyright: ignore[reportUnknownArgumentType]
            raise RuntimeError('Could not open the file: ""')
        path = Path(model)  # pyright: ignore[reportUnknownArgumentType]
        files = _read_path(path, weights)
        is_in_memory = isinstance(weights, bytes | io.BytesIO | Tensor)
        return replace(files, path=str(path), again=None if is_in_memory else _again(path, weights))
    raise TypeError(f"Provided python object type {type(model)} isn't supported as 'model' argument.")


def is_readable(model: object) -> bool:
    """Tell whether a value is of a type that `read_files` takes for a model."""
    return isinstance(model, str | os.PathLike | bytes | io.BytesIO)


def no_path(value: object) -> RuntimeError:
    """Say that something cannot be the path of a model or of its weights."""
    return RuntimeError(
        f"Path: '{value}' does not exist. Please provide valid model's path either as a string, bytes or pathlib.Path."
    )


def is_path(name: bytes) -> bool:
    """Tell whether bytes are the path of a file, which openvino takes for one when it compiles, and not a model."""
    try:
        return bool(name) and Path(os.fsdecode(name)).exists()
    except (OSError, ValueError):
        return False  # too long for a name, or with a zero in it


def _read_path(path: Path, weights: Weights) -> ModelFiles:
    if os.path.isdir(path):  # noqa: PTH112 - Path's own raises for what is too long for a path, as a model's text is
        return _read_saved_model(path)
    content = _read(path)
    if weights is None or weights == b"":
        beside = path.with_suffix(WEIGHTS_SUFFIXES.get(path.suffix, path.suffix))
        weights = beside if beside != path and beside.is_file() else None
    external = _external_data(path, content) if path.suffix == ".onnx" else {}
    return ModelFiles(Blob.of(content), _weights(weights), path.suffix, external)


def _again(path: Path, weights: Weights) -> Callable[[], Blobs]:
    """Give a function that reads the files once more, whatever the working directory is by then."""
    where = path.absolute()
    where_weights = Path(weights).absolute() if isinstance(weights, str | os.PathLike) else weights
    return lambda: _read_path(where, where_weights).blobs()


def _external_data(path: Path, content: bytes) -> dict[str, Blob]:
    """Read the files in which an ONNX model keeps tensors; as openvino does, only those in its folder or below."""
    blobs: dict[str, Blob] = {}
    for location in external_files(content):
        beside = PurePosixPath(location)
        # Windows takes more for a way out of the folder than other systems do, and what those take as well.
        read_by_windows = PureWindowsPath(location)
        if read_by_windows.anchor or ".." in read_by_windows.parts:
            raise RuntimeError(f"'{path}' keeps tensors in '{location}', expected a file in its own folder or below")
        try:
            blobs[str(beside)] = Blob.of((path.parent / beside).read_bytes())
        except OSError as error:
            raise RuntimeError(
                f"'{path}' keeps tensors in '{location}', which cannot be read: {error.strerror}"
            ) from None
    return blobs


def _read_saved_model(folder: Path) -> ModelFiles:
    model = Blob.of(_read(folder / SAVED_MODEL))
    found = sorted(folder.glob("variables/variables.*"))
    variables = {file.relative_to(folder).as_posix(): Blob.of(_read(file)) for file in found}
    return ModelFiles(model, None, SAVED_MODEL, variables)


def _weights(weights: Weights) -> Blob | None:
    """Read weights; empty ones count as none."""
    content = _weights_content(weights)
    return Blob.of(content) if len(content) else None


def _weights_content(weights: Weights) -> WireBytes:
    match weights:
        case None:
            return b""
        case bytes():
            return weights
        case io.BytesIO():
            return weights.getvalue()
        case Tensor():
            return bytes(weights.memory.wire_data())
        case str() | os.PathLike():
            return _read(Path(weights))
        case _:
            raise no_path(weights)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # the latter for a zero in it
        name = str(path)
        shown = name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}..."
        raise RuntimeError(f'Could not open the file: "{shown}": {getattr(error, "strerror", error)}') from None


def _suffix_in_memory(content: bytes, *, has_weights: bool) -> str:
    """Tell apart the formats that OpenVINO reads from memory: IR, PaddlePaddle and ONNX."""
    if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return ".xml"
    # Of the two protobuf formats only PaddlePaddle's begins with a nested message, and it needs its weights.
    return ".pdmodel" if has_weights and content.startswith(b"\n") else ".onnx"
