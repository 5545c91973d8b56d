"""The model repository: which files in a folder are models, under which names and versions.

    NAME/VERSION/model files      versions are folders named by a whole number
    NAME/model files              one version, 1
    NAME.onnx                     a single file, one version, 1
    NAME/inferwire.toml           the model's settings; optional

The folder of one model, or one model file, is a repository too: a folder is that of one model if it has version folders
and nothing else that is a model. It reads the folder's layout and the settings, and
says what it passes over; it opens no model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path
from stat import S_ISREG
from types import MappingProxyType
from typing import Any, TypeAlias

import structlog

from inferwire_proto.errors import Code
from inferwire_server.core.versions import VersionPolicy
from inferwire_server.engine.model_settings import FILE_NAME, ModelSettings, read_layer, settings_from
from inferwire_server.engine.setting_layers import Layer
from inferwire_server.errors import ServingError

log = structlog.stdlib.get_logger()

MODEL_SUFFIXES = (".xml", ".onnx", ".tflite", ".pdmodel", ".pb", ".pbtxt")
"""The endings of model files: OpenVINO IR, ONNX, TensorFlow Lite, PaddlePaddle, TensorFlow."""

SAVED_MODEL = "saved_model.pb"
"""The file that makes a folder a TensorFlow SavedModel."""

_EXPECTED = "model files, or a folder named by a whole number, as 1, with model files"

_STRAY_VERSION = "it is named as a version is, and lies beside models, expected a name that is no whole number"

_FEW = 5
"""So much of what a folder has is named."""

_LOAD = "what it is loaded with"
"""Who says the settings that a load brings."""

_NO_MODELS = ("lost+found",)
"""Folders that file systems make for themselves, and that few may read."""

Overrides: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Settings that loads bring, over those that models have, by the models' names; as their files would say them."""

Fingerprint: TypeAlias = frozenset[tuple[str, int, int, int]]
"""Files by name, time, size and inode."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of a model in the repository, the folder or file it lies in, and the model's settings file.

    Attributes:
        rival: Where another of the same name and version lies.
        obstacle: Why the model's folder could not be read; its versions are not known then.
        overrides: Settings over those of the file, each over those before it.
    """

    name: str
    version: str
    location: Path
    rival: Path | None = None
    settings_file: Path | None = None
    obstacle: str = ""
    overrides: tuple[Layer, ...] = field(default=(), compare=False)

    def fingerprint(self) -> Fingerprint:
        """Say what its files are now: it differs once one of them does, or its model's settings do."""
        single = self.location.is_file()
        files = self.location.parent.glob(f"{escape(self.location.stem)}.*") if single else self.location.rglob("*")
        # What the settings name, such as labels, lies beside them.
        settings = () if self.settings_file is None else self.settings_file.parent.glob("*")
        marks = frozenset(mark for file in (*files, *settings) if (mark := _mark(file)))
        said = [dict(layer.table) for layer in self.overrides]
        return marks | {(json.dumps(said, sort_keys=True), 0, 0, 0)} if said else marks

    def settings(self) -> ModelSettings:
        """Read the model's settings; the defaults where it has no file.

        Raises:
            ServingError: MODEL_FAILED if the file is broken, or what lies over it.
        """
        file = self.settings_file
        if file is not None:
            return settings_from([read_layer(file), *self.overrides], file.parent)
        return settings_from(self.overrides, self.location) if self.overrides else ModelSettings()

    def model_file(self) -> Path:
        """Find what the runtime reads: a model file, or the folder of a TensorFlow SavedModel.

        Raises:
            ServingError: MODEL_FAILED if there is none, more than one, another of this name and version, or if the
                folder cannot be read.
        """
        if self.obstacle:
            raise _unreadable(self.obstacle)
        if self.rival is not None:
            raise ServingError(
                Code.MODEL_FAILED,
                f"version {self.version} of model '{self.name}' is in the repository twice: "
                f"{self.location.name} and {self.rival.name}",
            )
        if self.location.is_file():
            return self.location
        try:
            files = _model_files(self.location)
        except OSError as error:
            raise _unreadable(str(error)) from error
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
    """A folder of models, the folder of one, or one model file. The policy is for models without one of their own."""

    def __init__(self, root: Path, policy: VersionPolicy) -> None:
        self.root = root
        self._policy = policy
        self._told: frozenset[tuple[str, str]] = frozenset()

    def __repr__(self) -> str:
        return f"<Repository {self.root}>"

    def served(self, overrides: Overrides = MappingProxyType({})) -> list[Entry]:
        """List the versions to serve, by name, then by version, and warn of folders of which nothing is, once of each.

        Raises:
            ServingError: INVALID_INPUT if there is no such folder or file.
        """
        models: dict[str, list[Entry]] = {}
        for entry in overridden(self.scan(), overrides):
            models.setdefault(entry.name, []).append(entry)
        found = {name: chosen(versions, self._policy) for name, versions in models.items()}
        self._warn_of(
            [
                *self._without_models(set(models)),
                *((name, _not_chosen(models[name])) for name, versions in found.items() if not versions),
            ]
        )
        return [entry for versions in found.values() for entry in versions]

    def scan(self) -> list[Entry]:
        """List every version of every model, by name, then by version.

        Raises:
            ServingError: INVALID_INPUT if there is no such folder or file.
        """
        if self.root.is_file():
            return [Entry(self.root.stem, "1", self.root)]
        if not self.root.is_dir():
            raise ServingError(Code.INVALID_INPUT, f"the model repository '{self.root}' is no folder and no model file")
        if self._is_one_model:
            return _single(_entries(self.root.resolve()))
        children = [child for child in sorted(self.root.iterdir()) if not _is_version(child)]
        return _single(entry for child in children for entry in _entries_or_obstacle(child))

    @property
    def _is_one_model(self) -> bool:
        children = list(self.root.iterdir())
        if any(child.name == SAVED_MODEL for child in children):
            return True
        others = [child for child in children if not _is_version(child)]
        return len(others) < len(children) and not any(map(_has_model, others))

    def _without_models(self, names: Collection[str]) -> Iterator[tuple[str, str]]:
        """Give the folders that are none of these models, and why."""
        if not self.root.is_dir() or self._is_one_model:
            return
        for child in sorted(self.root.iterdir()):
            if child.is_dir() and child.name not in (*_NO_MODELS, *names) and not child.name.startswith("."):
                # It may have gone since.
                with suppress(OSError):
                    yield child.name, _STRAY_VERSION if _is_version(child) else _no_model(child)

    def _warn_of(self, passed_over: Iterable[tuple[str, str]]) -> None:
        """Say what is passed over, unless it was when the folder was last read."""
        found = frozenset(passed_over)
        for folder, reason in sorted(found - self._told):
            log.warning("passed over", folder=folder, reason=reason)
        self._told = found


def _no_model(folder: Path) -> str:
    inner = ", ".join(sorted(f"'{each.name}'" for each in folder.iterdir())[:_FEW])
    return f"it has {inner or 'nothing'}, expected {_EXPECTED}"


def _not_chosen(versions: Sequence[Entry]) -> str:
    there = ", ".join(entry.version for entry in versions)
    return f"it has no version but {there}, expected one that its version policy asks for"


def chosen(versions: list[Entry], default: VersionPolicy) -> list[Entry]:
    """Give those versions of one model that its policy asks for, or the default where its settings have none."""
    numbers = _policy_of(versions[0], default).choose({int(entry.version) for entry in versions})
    return [entry for entry in versions if int(entry.version) in numbers]


def overridden(entries: Iterable[Entry], overrides: Overrides) -> list[Entry]:
    """Lay settings over those that entries have."""
    return [
        replace(entry, overrides=(*entry.overrides, Layer(_LOAD, overrides[entry.name])))
        if entry.name in overrides
        else entry
        for entry in entries
    ]


def versions_at(location: Path, name: str, over: Layer) -> list[Entry]:
    """List the versions of a model that has this name wherever it lies, at least one; with settings over its own."""
    try:
        entries = _entries(location)
        reason = "it has no version folder and no model file" if location.exists() else f"there is no '{location}'"
    except OSError as error:
        entries, reason = [], str(error)
    found = _single(entries) or [Entry(name, "1", location, obstacle=reason)]
    return [replace(entry, name=name, overrides=(over,)) for entry in found]


def _policy_of(entry: Entry, default: VersionPolicy) -> VersionPolicy:
    try:
        return entry.settings().version_policy or default
    except ServingError:
        # Broken settings are the reason why the model does not load, and are told there.
        return default


def _single(entries: Iterable[Entry]) -> list[Entry]:
    """Keep one entry of each name and version, which knows of another there is."""
    found: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        first = found.setdefault((entry.name, entry.version), entry)
        if first is not entry:
            found[entry.name, entry.version] = replace(first, rival=entry.location)
    return list(found.values())


def _entries_or_obstacle(path: Path) -> list[Entry]:
    """Give a folder that cannot be read as a model that will not load: the others are to be served."""
    try:
        return [] if path.name in _NO_MODELS else _entries(path)
    except OSError as error:
        return [Entry(path.name, "1", path, obstacle=str(error))]


def _has_model(path: Path) -> bool:
    """Tell whether a child of the repository is a model; one that cannot be read is not known to be."""
    try:
        return path.name not in _NO_MODELS and bool(_entries(path))
    except OSError:
        return False


def _unreadable(reason: str) -> ServingError:
    return ServingError(Code.MODEL_FAILED, f"its folder cannot be read: {reason}")


def _entries(path: Path) -> list[Entry]:
    if path.name.startswith("."):
        return []
    if path.is_file():
        return [Entry(path.stem, "1", path)] if path.suffix in MODEL_SUFFIXES else []
    if not path.is_dir():
        return []
    settings_file = path / FILE_NAME
    # A link that leads nowhere, or a folder that a container's mount has made of it, is one that cannot be read.
    settings = settings_file if os.path.lexists(settings_file) else None
    versions = sorted((child for child in path.iterdir() if _is_version(child)), key=lambda child: int(child.name))
    if versions:
        return [Entry(path.name, str(int(child.name)), child, settings_file=settings) for child in versions]
    return [Entry(path.name, "1", path, settings_file=settings)] if _model_files(path) else []


def _is_version(path: Path) -> bool:
    return path.is_dir() and path.name.isascii() and path.name.isdigit()


def _mark(file: Path) -> tuple[str, int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None  # it went while the folder was read
    return (str(file), status.st_mtime_ns, status.st_size, status.st_ino) if S_ISREG(status.st_mode) else None


def _model_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in MODEL_SUFFIXES and not file.name.startswith("."))
