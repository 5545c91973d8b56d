"""OpenVINO Model Server's configuration file as a model repository: which models it names, where, with which settings.

If the file asks for what is not offered here, one message names all of that, and nothing of the file is served: a model
without its preprocessing would answer, and wrongly. It opens no model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from inferwire_proto.host.bounded_files import read_text, why_not_read
from inferwire_server.core.versions import VersionPolicy
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.repository.entries import Entry, as_utf8
from inferwire_server.repository.listing import Overrides, chosen, overridden, versions_at
from inferwire_server.repository.looks import is_file, is_folder
from inferwire_server.repository.model_server_fields import FIELDS, Table, translate
from inferwire_server.repository.setting_layers import Layer

MIGRATION = "docs/from-openvino-model-server.md says what maps to what"

_NOT_OFFERED = {
    "mediapipe_config_list": "graphs of MediaPipe, and the language models in them, are not offered",
    "pipeline_config_list": "pipelines are not offered",
    "custom_node_library_config_list": "custom nodes are not offered",
    "custom_loader_config_list": "models are read from files alone",
}


@dataclass(frozen=True, slots=True)
class ConfiguredModel:
    """A model that the file names.

    Attributes:
        settings: What the file says of it, as an `inferwire.toml` would say it.
    """

    name: str
    location: Path
    settings: Table


class ConfiguredRepository:
    """The models that a configuration file names. The policy is for those without one of their own."""

    def __init__(self, file: Path, policy: VersionPolicy) -> None:
        self.source = file
        self.why_empty = f"the configuration '{file}' names no model to serve"
        self._policy = policy

    def __repr__(self) -> str:
        return f"<ConfiguredRepository {self.source}>"

    def served(self, overrides: Overrides = MappingProxyType({}), name: str | None = None) -> list[Entry]:
        """List the versions to serve, in the file's order; with a name, those of its model alone.

        Raises:
            ServingError: INVALID_INPUT if the file cannot be read, or says what is not offered here.
        """
        entries: list[Entry] = []
        for model in _read_config(self.source):
            if name not in (None, model.name):
                continue
            said = Layer(self.source.name, model.settings, FIELDS)
            # Triton's configuration is no part of what the file says.
            versions = [
                replace(entry, config_file=None, overrides=(said,)) for entry in versions_at(model.location, model.name)
            ]
            entries += chosen(overridden(versions, overrides), self._policy)
        return entries

    def folders(self) -> frozenset[Path]:
        """Give the folders in which a change may matter, as far as they are there."""
        try:
            locations = [model.location for model in _read_config(self.source)]
        except ServingError:
            locations = []
        folders = (location.parent if is_file(location) else location for location in locations)
        return frozenset(folder for folder in (self.source.parent, *folders) if is_folder(folder))


def _read_config(file: Path) -> list[ConfiguredModel]:
    """Read the file.

    Raises:
        ServingError: INVALID_INPUT naming all that is wrong.
    """
    name = as_utf8(str(file))
    try:
        document = _parsed(read_text(file))
    except RecursionError as error:
        raise invalid_input(f"the configuration '{name}' cannot be read: it is nested too deeply") from error
    except (OSError, ValueError) as error:
        raise invalid_input(f"the configuration '{name}' cannot be read: {why_not_read(error)}") from error
    reading = _Reading(file.parent)
    models = reading.models(document)
    if reading.problems:
        raise invalid_input(f"the configuration '{name}': {'; '.join(reading.problems)} ({MIGRATION})")
    return models


def _parsed(text: str) -> object:
    document: object = json.loads(text)
    # JSON may name what is no UTF-8, which no answer could have in it.
    json.dumps(document, ensure_ascii=False).encode()
    return document


class _Reading:
    """Reads one file to its end, whatever is wrong in it, and gathers the problems."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.problems: list[str] = []

    def models(self, document: object) -> list[ConfiguredModel]:
        if not isinstance(document, dict):
            self.problems.append("it is no JSON object, expected one with a model_config_list")
            return []
        sections = cast("Table", document)
        for name, section in sections.items():
            self._check_section(name, section)
        listed = sections.get("model_config_list", [])
        if not isinstance(listed, list):
            self.problems.append("model_config_list is no list")
            return []
        models = [self._model(at, item) for at, item in enumerate(cast("list[object]", listed))]
        found = [model for model in models if model is not None]
        names = [model.name for model in found]
        self.problems += [f"model '{name}' is there twice" for name in sorted({n for n in names if names.count(n) > 1})]
        return found

    def _check_section(self, name: str, section: object) -> None:
        if name in _NOT_OFFERED and section:
            self.problems.append(f"{name}: {_NOT_OFFERED[name]}")
        elif name not in ("model_config_list", "monitoring", *_NOT_OFFERED):
            self.problems.append(f"{name} is no section of the file")

    def _model(self, at: int, item: object) -> ConfiguredModel | None:
        where = f"model_config_list[{at}]"
        config = cast("Mapping[str, Any]", item).get("config") if isinstance(item, dict) else None
        if not isinstance(config, dict):
            self.problems.append(f"{where} has no object config")
            return None
        fields = cast("Table", config)
        missing = [name for name in ("name", "base_path") if not _is_text(fields.get(name))]
        settings, problems = translate(fields)
        who = f"model '{fields['name']}'" if "name" not in missing else where
        self.problems += [f"{who}: {name} has to be a text" for name in missing]
        self.problems += [f"{who}: {problem}" for problem in problems]
        if missing:
            return None
        base_path: str = fields["base_path"]
        if "://" in base_path:
            self.problems.append(f"{who}: base_path is '{base_path}', expected a folder of this machine")
        return ConfiguredModel(fields["name"], self._folder / base_path, settings)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)
