"""Lists the versions of the model that lies at a path, and chooses those to serve of all that there are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from inferwire_server.core.versions import VersionPolicy
from inferwire_server.errors import ServingError
from inferwire_server.open_inference.model_config import FIELDS
from inferwire_server.repository.entries import Entry, as_utf8, is_model_file, model_files, unreadable
from inferwire_server.repository.looks import is_file, is_folder, is_there
from inferwire_server.repository.model_settings import FILE_NAME
from inferwire_server.repository.setting_layers import Layer
from inferwire_server.repository.triton_config import CONFIG_NAME

_NOT_UTF8 = "its name, escaped here, is not UTF-8, expected one that is"

_LOAD = "what it is loaded with"
"""What errors name as the source of settings that a load brings."""

Overrides: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Settings that loads bring, over those that models have, by the models' names; as their files would say them."""


def entries_at(path: Path) -> list[Entry]:
    """List the versions of a model that lies at a path; none where there is no model."""
    if path.name.startswith("."):
        return []
    if is_file(path):
        return [Entry(path.stem, "1", path)] if is_model_file(path) else []
    if not is_folder(path):
        return []
    settings, config = _if_there(path / FILE_NAME), _if_there(path / CONFIG_NAME)
    versions = sorted((child for child in path.iterdir() if is_version(child)), key=lambda child: int(child.name))
    if versions:
        return [Entry(path.name, str(int(child.name)), child, None, settings, config) for child in versions]
    # A folder with a configuration for Triton is a model, even if its files are missing.
    is_model = config is not None or model_files(path)
    return [Entry(path.name, "1", path, None, settings, config)] if is_model else []


def versions_at(location: Path, name: str) -> list[Entry]:
    """List the versions of the model at a location, at least one, under this name."""
    try:
        entries = entries_at(location)
        missing = f"there is no '{as_utf8(str(location))}'"
        reason = "it has no version folder and no model file" if is_there(location) else missing
    except OSError as error:
        entries, reason = [], error
    found = one_of_each(entries) or [Entry(name, "1", location, obstacle=unreadable(reason))]
    return [replace(entry, name=name, is_named=True) for entry in found]


def named_in_utf8(entry: Entry) -> Entry:
    """Escape a name that is not UTF-8, which no answer could carry, and have nothing of its model read."""
    if (name := as_utf8(entry.name)) == entry.name:
        return entry
    return replace(entry, name=name, settings_file=None, config_file=None, obstacle=_NOT_UTF8)


def is_version(path: Path) -> bool:
    """Tell whether a folder is named as a version is."""
    return is_named_as_version(path) and is_folder(path)


def is_named_as_version(path: Path) -> bool:
    """Tell whether something has the name of a version, whatever it is."""
    return path.name.isascii() and path.name.isdigit()


def one_of_each(entries: Iterable[Entry]) -> list[Entry]:
    """Keep the first entry of each name and version; its `rival` tells where another of the same lies."""
    found: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        first = found.setdefault((entry.name, entry.version), entry)
        if first is not entry:
            found[entry.name, entry.version] = replace(first, rival=entry.location)
    return list(found.values())


def overridden(entries: Iterable[Entry], overrides: Overrides) -> list[Entry]:
    """Lay settings over those that entries have."""
    return [
        replace(entry, overrides=(*entry.overrides, Layer(_LOAD, overrides[entry.name], FIELDS)))
        if entry.name in overrides
        else entry
        for entry in entries
    ]


def chosen(versions: list[Entry], default: VersionPolicy) -> list[Entry]:
    """Give the versions of one model that its policy asks for, or the default policy if its settings have none.

    If none of these is there, give an entry that does not load, so that the versions that served before serve on.
    """
    try:
        policy = versions[0].version_policy() or default
    except ServingError as error:
        # Which versions they ask for is not known: those that serve are to serve on.
        versions, policy = [replace(entry, obstacle=error.message) for entry in versions], default
    numbers = policy.choose({int(entry.version) for entry in versions})
    found = [entry for entry in versions if int(entry.version) in numbers]
    return found or [_not_chosen(versions)]


def _not_chosen(versions: list[Entry]) -> Entry:
    there = ", ".join(entry.version for entry in versions)
    reason = f"it has no version but {there}, expected one that its version policy asks for"
    # If the folder cannot be read, its versions are not known.
    return versions[-1] if versions[-1].obstacle else replace(versions[-1], obstacle=reason)


def _if_there(file: Path) -> Path | None:
    """Give a file if anything is there under its name.

    A link that leads nowhere, or a folder that a mount has made of it, cannot be read: the reader says so.
    """
    return file if os.path.lexists(file) else None
