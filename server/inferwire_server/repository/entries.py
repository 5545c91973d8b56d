"""Versions of models as they lie on disk: what they are read from, and which changes make them due for a reload.

It reads a model's settings and the names of its files, and whether they can be read; it reads no model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path
from stat import S_ISREG
from typing import TypeAlias

from inferwire_proto.errors import Code
from inferwire_proto.model_formats import MODEL_SUFFIXES, SAVED_MODEL
from inferwire_server.core.model_options import ModelOptions
from inferwire_server.core.versions import VersionPolicy
from inferwire_server.errors import ServingError, UnfitSetting
from inferwire_server.open_inference.config_file import FileConfig
from inferwire_server.open_inference.model_config import FIELDS
from inferwire_server.repository.batch_settings import as_said
from inferwire_server.repository.looks import is_file, is_folder
from inferwire_server.repository.model_settings import (
    FILE_NAME,
    ModelSettings,
    read_layer,
    settings_from,
    version_policy_from,
)
from inferwire_server.repository.setting_layers import Layer, told
from inferwire_server.repository.triton_config import CONFIG_NAME, read_triton_config

SAVED_MODEL_SUFFIX = ".savedmodel"
"""The ending of a folder that is a SavedModel and lies in that of a version, as `model.savedmodel`."""

Fingerprint: TypeAlias = frozenset[tuple[str | int, ...]]
"""Files by name, time, size, inode and who may read them, and what else decides what is loaded."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of a model in the repository, the folder or file it lies in, and the model's settings files.

    Attributes:
        config_file: Triton's file, whose settings lie below those of the settings file.
        is_named: Whether the model is served under a name that was given for it, whatever Triton's file calls it.
        rival: Where another of the same name and version lies.
        obstacle: Why the model is not read, for example because its folder cannot be; its versions, or which of them
            are to be served, may not be known then.
        overrides: Settings over those of the files, each over those before it.
    """

    name: str
    version: str
    location: Path
    rival: Path | None = None
    settings_file: Path | None = None
    config_file: Path | None = None
    is_named: bool = False
    obstacle: str = ""
    overrides: tuple[Layer, ...] = field(default=(), compare=False)

    def fingerprint(self) -> Fingerprint:
        """Identify the files, permissions, settings and obstacles; any change gives another value."""
        # What the settings name, such as labels, lies beside them.
        beside = self.settings_file or self.config_file
        settings = () if beside is None else beside.parent.glob("*")
        marks = frozenset(mark for file in (*self._files(), *settings) if (mark := _mark(file)))
        said = [dict(layer.table) for layer in self.overrides]
        # Paths, too: a settings file that cannot be read, such as a link that leads nowhere, has no mark.
        paths = (str(path) for path in (self.rival, self.settings_file, self.config_file))
        return marks | {(self.obstacle, *paths, json.dumps(said, sort_keys=True))}

    def is_partly_other(self, before: Fingerprint, now: Fingerprint) -> bool:
        """Whether some of the version's own files have changed and some have not."""
        own_before, own = self._own(before), self._own(now)
        return own_before != own and not own_before.isdisjoint(own)

    def _own(self, fingerprint: Fingerprint) -> Fingerprint:
        """Give what a fingerprint says of the version's own files, to which its settings do not belong."""
        beginnings = (f"{self.location}{os.sep}", f"{self.location.with_suffix('')}.")
        settings = {str(self.settings_file), str(self.config_file)}
        return frozenset(
            mark for mark in fingerprint if str(mark[0]).startswith(beginnings) and mark[0] not in settings
        )

    def _files(self) -> Iterable[Path]:
        """List the files of the version; none of a model that is not read, since looking again might fail too."""
        if self.obstacle:
            return ()
        if is_file(self.location):
            return self.location.parent.glob(f"{escape(self.location.stem)}.*")
        # Passes over folders that cannot be listed: they are gone since, or this model alone fails when it is read.
        return (Path(folder, name) for folder, _, names in os.walk(self.location) for name in names)

    def settings(self) -> ModelSettings:
        """Read the model's settings; the defaults where it has no file.

        Raises:
            ServingError: MODEL_FAILED if a file is broken, or what lies over it.
        """
        file, config = self.settings_file or self.config_file, self._config()
        layers = self._layers(config)
        folder = self.location if file is None else file.parent
        settings = settings_from(layers, folder) if layers else ModelSettings()
        return settings if config is None else replace(settings, stated=config.stated, unused=config.unused)

    def version_policy(self) -> VersionPolicy | None:
        """Read which of the model's versions are to be served, and no other setting; None where nothing says it.

        Raises:
            ServingError: MODEL_FAILED if a file is broken.
        """
        return version_policy_from(self._layers(self._config()))

    def why_unfit(self, unfit: UnfitSetting, defaults: ModelOptions) -> ServingError:
        """Turn a setting that does not fit the model into an error that names its source.

        `defaults` are what the server's flags say for models whose sources say nothing.
        """
        try:
            layers = self._layers(self._config())
            return told(as_said(unfit, layers), layers) or _told_of_flags(unfit, defaults)
        except ServingError:
            return unfit  # its file has changed since

    def _config(self) -> FileConfig | None:
        if self.config_file is None:
            return None
        return read_triton_config(self.config_file, None if self.is_named else self.name)

    def _layers(self, config: FileConfig | None) -> list[Layer]:
        below = [] if config is None else [Layer(config.source, config.settings, FIELDS)]
        own = [] if self.settings_file is None else [read_layer(self.settings_file)]
        return [*below, *own, *self.overrides]

    def model_file(self, name: str | None = None) -> Path:
        """Find what the runtime reads: a model file, or the folder of a TensorFlow SavedModel.

        With a name it is the one of this name, whatever else is there.

        Raises:
            ServingError: MODEL_FAILED if there is none, more than one, another of this name and version, or if the
                model is not read, or cannot be.
        """
        if self.obstacle:
            raise ServingError(Code.MODEL_FAILED, self.obstacle)
        if self.rival is not None:
            raise ServingError(
                Code.MODEL_FAILED,
                f"version {self.version} of model '{self.name}' is in the repository twice: "
                f"{as_utf8(self.location.name)} and {as_utf8(self.rival.name)}",
            )
        if is_file(self.location):
            return _readable(self.location)
        try:
            there = model_files(self.location)
            files = [file for file in there if name in (None, file.name)]
            for file in files:
                file.stat()  # the names in a folder may be readable although it may not be entered
        except OSError as error:
            raise ServingError(Code.MODEL_FAILED, unreadable(error)) from error
        if any(file.name == SAVED_MODEL for file in files):
            return _readable(self.location)
        if len(files) == 1:
            return _readable(files[0])
        if name is None:
            expected = f"has to hold one model file ({' '.join(MODEL_SUFFIXES)})"
        else:
            expected = f"has no model file '{as_utf8(name)}', which the model's settings name"
        found = ", ".join(as_utf8(file.name) for file in there) or "none"
        choice = f"; the setting 'file' in its {FILE_NAME} says which" if files else ""
        raise ServingError(
            Code.MODEL_FAILED, f"version {self.version} of model '{self.name}' {expected}, found {found}{choice}"
        )


def as_utf8(name: str) -> str:
    """Give a name of the file system as text that can be shown: bytes that are not UTF-8 are escaped."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def unreadable(reason: object) -> str:
    """Say why a model whose folder cannot be read is not loaded."""
    return f"its folder cannot be read: {reason}"


def model_files(folder: Path) -> list[Path]:
    """List the files that are models, and the folders that are SavedModels as Triton has them."""
    return sorted(file for file in folder.iterdir() if is_model_file(file) or _is_saved_model(file))


def is_model_file(file: Path) -> bool:
    """Tell whether a file is a model by its name."""
    return file.suffix in MODEL_SUFFIXES and not file.name.startswith(".") and file.name != CONFIG_NAME


def _told_of_flags(unfit: UnfitSetting, defaults: ModelOptions) -> ServingError:
    """Say by which flag the server was told what does not fit; give the error as it is if no flag says such a thing."""
    match unfit.setting:
        case ("device",):
            said = f"--device is '{defaults.device}'"
        case ("properties", name) if name in defaults.properties:
            said = f"--property is '{name}={defaults.properties[name]}'"
        case _:
            return unfit
    return ServingError(unfit.code, f"{said}: {unfit.reason}")


def _is_saved_model(folder: Path) -> bool:
    return folder.suffix == SAVED_MODEL_SUFFIX and is_file(folder / SAVED_MODEL)


def _readable(model: Path) -> Path:
    """Give a model file, or a SavedModel's folder, that can be read.

    OpenVINO would say that its format is unknown, or wait for the writer of a pipe.
    """
    try:
        file = model / SAVED_MODEL if is_folder(model) else model
        if not is_file(file):
            raise ServingError(Code.MODEL_FAILED, f"its file cannot be read: '{as_utf8(str(model))}' is no file")
        with file.open("rb"):
            return model
    except OSError as error:
        raise ServingError(Code.MODEL_FAILED, f"its file cannot be read: {error}") from error


def _mark(file: Path) -> tuple[str | int, ...] | None:
    """Identify a file's content and permissions. The inode's time is left out: a backup's hard link changes that."""
    try:
        found = file.stat()
    except OSError:
        return None  # it went while the folder was read
    if not S_ISREG(found.st_mode):
        return None
    rights = found.st_mode, found.st_uid, found.st_gid
    return str(file), found.st_mtime_ns, found.st_size, found.st_ino, *rights
