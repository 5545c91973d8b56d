"""The model repository: which files in a folder are models, under which names and versions.

    NAME/VERSION/model files      versions are folders named by a whole number
    NAME/model files              one version, 1
    NAME.onnx                     a single file, one version, 1

The folder of one model, or one model file, is a repository too. It reads the folder's layout only; it opens no model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError

MODEL_SUFFIXES = (".xml", ".onnx", ".tflite", ".pdmodel", ".pb", ".pbtxt")
"""The endings of model files: OpenVINO IR, ONNX, TensorFlow Lite, PaddlePaddle, TensorFlow."""

SAVED_MODEL = "saved_model.pb"
"""The file that makes a folder a TensorFlow SavedModel."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of a model in the repository, and the folder or file it lies in."""

    name: str
    version: str
    location: Path
    rival: Path | None = None

    def model_file(self) -> Path:
        """Find what the runtime reads: a model file, or the folder of a TensorFlow SavedModel.

        Raises:
            ServingError: MODEL_FAILED if there is none, more than one, or another of this name and version.
        """
        if self.rival is not None:
            raise ServingError(
                Code.MODEL_FAILED,
                f"version {self.version} of model '{self.name}' is in the repository twice: "
                f"{self.location.name} and {self.rival.name}",
            )
        if self.location.is_file():
            return self.location
        files = _model_files(self.location)
        if any(file.name == SAVED_MODEL for file in files):
            return self.location
        if len(files) == 1:
            return files[0]
        found = ", ".join(file.name for file in files) or "none"
        raise ServingError(
            Code.MODEL_FAILED,
            f"version {self.version} of model '{self.name}' has to hold one model file "
            f"({' '.join(MODEL_SUFFIXES)}), found {found}",
        )


class Repository:
    """A folder of models, the folder of one, or one model file."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __repr__(self) -> str:
        return f"<Repository {self.root}>"

    def scan(self) -> list[Entry]:
        """List every version of every model, by name, then by version.

        Raises:
            ServingError: INVALID_INPUT if there is no such folder or file.
        """
        if self.root.is_file():
            return [Entry(self.root.stem, "1", self.root)]
        if not self.root.is_dir():
            raise ServingError(Code.INVALID_INPUT, f"the model repository '{self.root}' is no folder and no model file")
        children = sorted(self.root.iterdir())
        if any(_is_version(child) or child.name == SAVED_MODEL for child in children):
            return _single(_entries(self.root.resolve()))
        return _single(entry for child in children for entry in _entries(child))


def latest(entries: list[Entry]) -> list[Entry]:
    """Keep the highest version of each model."""
    highest: dict[str, Entry] = {}
    for entry in entries:
        if entry.name not in highest or int(entry.version) > int(highest[entry.name].version):
            highest[entry.name] = entry
    return list(highest.values())


def _single(entries: Iterable[Entry]) -> list[Entry]:
    """Keep one entry of each name and version, which knows of another there is."""
    found: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        first = found.setdefault((entry.name, entry.version), entry)
        if first is not entry:
            found[entry.name, entry.version] = replace(first, rival=entry.location)
    return list(found.values())


def _entries(path: Path) -> list[Entry]:
    if path.name.startswith("."):
        return []
    if path.is_file():
        return [Entry(path.stem, "1", path)] if path.suffix in MODEL_SUFFIXES else []
    if not path.is_dir():
        return []
    versions = sorted((child for child in path.iterdir() if _is_version(child)), key=lambda child: int(child.name))
    if versions:
        return [Entry(path.name, str(int(child.name)), child) for child in versions]
    return [Entry(path.name, "1", path)] if _model_files(path) else []


def _is_version(path: Path) -> bool:
    return path.is_dir() and path.name.isascii() and path.name.isdigit()


def _model_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in MODEL_SUFFIXES and not file.name.startswith("."))
