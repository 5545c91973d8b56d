"""The model repository: which files in a folder are models, under which names and versions.

    NAME/VERSION/model files      versions are folders named by a whole number
    NAME/model files              one version, 1
    NAME.onnx                     a single file, one version, 1
    NAME/inferwire.toml           the model's settings; optional
    NAME/config.pbtxt             settings as Triton has them, below those; optional

The folder of one model, or one model file, is a repository too: a folder is that of one model if it has version folders
and nothing else that is a model. Folders that are passed over are logged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import structlog

from inferwire_proto.errors import Code
from inferwire_proto.model_formats import SAVED_MODEL
from inferwire_server.core.versions import VersionPolicy
from inferwire_server.errors import ServingError, is_lack_of_files
from inferwire_server.repository.entries import Entry, as_utf8, unreadable
from inferwire_server.repository.listing import (
    Overrides,
    chosen,
    entries_at,
    is_named_as_version,
    is_version,
    named_in_utf8,
    one_of_each,
    overridden,
)
from inferwire_server.repository.looks import is_file, is_folder, is_there

log = structlog.stdlib.get_logger()

_EXPECTED = "model files, or a folder named by a whole number, as 1, with model files"

_STRAY_VERSION = "it is named as a version is, and lies beside models, expected a name that is no whole number"

_FEW = 5
"""How many of the things in a folder are named in a warning."""

_NO_MODELS = ("lost+found",)
"""Folders that file systems make for themselves, and that few may read."""


class Repository:
    """A folder of models, the folder of one, or one model file.

    The policy is for models without one of their own. With `warns`, folders that are passed over are logged.
    """

    def __init__(self, source: Path, policy: VersionPolicy, *, warns: bool = True) -> None:
        self.source = source
        self.why_empty = f"the model repository '{source}' has no model to serve"
        self._policy = policy
        self._warns = warns
        self._told: frozenset[tuple[str, str]] = frozenset()

    def __repr__(self) -> str:
        return f"<Repository {self.source}>"

    def served(self, overrides: Overrides = MappingProxyType({}), name: str | None = None) -> list[Entry]:
        """List the versions to serve, by name, then by version; it may warn, once of each folder that holds none.

        With a name it looks for the model of this name alone.

        Raises:
            ServingError: INVALID_INPUT if there is no such folder or file, or it cannot be read.
        """
        models: dict[str, list[Entry]] = {}
        for entry in overridden(self.scan(name), overrides):
            models.setdefault(entry.name, []).append(entry)
        if self._warns:
            self._warn_of(self._without_models(set(models), name), name)
        return [entry for versions in models.values() for entry in chosen(versions, self._policy)]

    def folders(self) -> frozenset[Path]:
        """Give the folder in which a change may matter."""
        return frozenset({self.source.parent if is_file(self.source) else self.source})

    def scan(self, name: str | None = None) -> list[Entry]:
        """List every version of every model, or of the one of this name, by name, then by version.

        Raises:
            ServingError: INVALID_INPUT if there is no such folder or file, or it cannot be read.
        """
        try:
            entries = map(named_in_utf8, self._entries(name))
            return one_of_each(entry for entry in entries if name in (None, entry.name))
        except OSError as error:
            if is_lack_of_files(error):
                raise  # callers are told of that, too, and to try again
            reason = f"the model repository '{as_utf8(str(self.source))}' cannot be read: {error.strerror}"
            raise ServingError(Code.INVALID_INPUT, reason) from error

    def _entries(self, name: str | None) -> list[Entry]:
        """List the versions of every model, or of those that may be the one of this name."""
        if is_file(self.source):
            return [Entry(self.source.stem, "1", self.source)]
        if not is_folder(self.source):
            reason = "is no folder and no model file" if is_there(self.source) else "does not exist"
            raise ServingError(Code.INVALID_INPUT, f"the model repository '{as_utf8(str(self.source))}' {reason}")
        if self._is_one_model:
            return entries_at(self.source.resolve())
        children = [child for child in self._children(name) if not _is_version(child)]
        return [entry for child in children for entry in _entries_or_obstacle(child)]

    def _children(self, name: str | None) -> list[Path]:
        """List what lies in the folder, or what may be the model of this name, by its folder's or its file's."""
        return sorted(
            child
            for child in self.source.iterdir()
            if name is None or name in (as_utf8(child.name), as_utf8(child.stem))
        )

    @property
    def _is_one_model(self) -> bool:
        children = list(self.source.iterdir())
        if any(child.name == SAVED_MODEL for child in children):
            return True
        versions = [child for child in children if is_named_as_version(child)]
        if not versions:
            return False
        others = [child for child in children if child not in versions]
        # A version that cannot be looked at makes it a model that cannot be read, of which nothing is unloaded.
        return not any(map(_has_model, others)) and any(map(is_version, versions))

    def _without_models(self, models: Collection[str], name: str | None) -> Iterator[tuple[str, str]]:
        """List the folders that hold none of these models, and why they are passed over; with a name, those like it."""
        if not is_folder(self.source) or self._is_one_model:
            return
        for child in self._children(name):
            folder = as_utf8(child.name)
            if folder in (*_NO_MODELS, *models) or folder.startswith("."):
                continue
            # It may be gone since, or may not be looked at.
            with suppress(OSError):
                if is_folder(child):
                    yield folder, _STRAY_VERSION if is_version(child) else _no_model(child)

    def _warn_of(self, passed_over: Iterable[tuple[str, str]], name: str | None) -> None:
        """Warn of folders that are passed over, of all or of those of a name, unless their last reading has warned."""
        found = frozenset(passed_over)
        for folder, reason in sorted(found - self._told):
            log.warning("passed over", folder=folder, reason=reason)
        self._told = found | {told for told in self._told if name is not None and told[0] != name}


def _no_model(folder: Path) -> str:
    inner = ", ".join(sorted(f"'{as_utf8(each.name)}'" for each in folder.iterdir())[:_FEW])
    return f"it has {inner or 'nothing'}, expected {_EXPECTED}"


def _is_version(path: Path) -> bool:
    """Tell whether a child of the repository is named as a version is; one that cannot be looked at is a model."""
    try:
        return is_version(path)
    except OSError:
        return False


def _entries_or_obstacle(path: Path) -> list[Entry]:
    """Give a folder that cannot be read as a model that will not load: the others are to be served."""
    try:
        return [] if path.name in _NO_MODELS else entries_at(path)
    except OSError as error:
        if is_lack_of_files(error):
            raise
        return [Entry(path.name, "1", path, obstacle=unreadable(error))]


def _has_model(path: Path) -> bool:
    """Tell whether a child of the repository is a model; one that cannot be read is not known to be."""
    try:
        return path.name not in _NO_MODELS and bool(entries_at(path))
    except OSError as error:
        if is_lack_of_files(error):
            raise
        return False
