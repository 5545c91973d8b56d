"""What the operator decides for one model: its `inferwire.toml`, read and checked, and what lies below and over it.

Every setting is optional, and so is the file. Nothing here opens the model: whether a shape or an input
fits it is said when it is loaded.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from inferwire_proto.errors import Code
from inferwire_proto.host.bounded_files import read_text, why_not_read
from inferwire_proto.properties import Properties, PropertyValue
from inferwire_server.core.batch_options import NAMES, BatchOptions
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.bindings import BindingTerms
from inferwire_server.core.specs import Dimension, Shape
from inferwire_server.core.stated_ports import StatedPorts
from inferwire_server.core.versions import VersionPolicy
from inferwire_server.errors import ServingError
from inferwire_server.repository.batch_settings import batches_of, with_keys_alone
from inferwire_server.repository.label_file import read_labels
from inferwire_server.repository.preprocessing_settings import InputPreprocessing
from inferwire_server.repository.setting_layers import Layer, flattened, layer_of
from inferwire_server.repository.setting_readers import ANY, READERS, version_policy
from inferwire_server.repository.setting_values import UnfitValue, items

FILE_NAME = "inferwire.toml"

_TOO_DEEP = "cannot be read: it is nested too deeply"

_NO_BATCHES = BatchOptions()


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One model's settings; the server's own where one is None.

    Attributes:
        device: What it is compiled for.
        properties: OpenVINO's properties, over those of the server.
        precision: What it computes in: OpenVINO's INFERENCE_PRECISION_HINT.
        slots: How many of its inferences run at once.
        version_policy: Which of its versions are served.
        batches: How its jobs run together.
        priority: The priority of jobs that name none.
        time_limit_s: How long jobs that name no limit may take, from arrival to end.
        weight: Its share of a device that others want too: twice the weight, twice the time.
        batch: How many rows inputs have, in place of what the model says; of models whose shapes are not given.
        shapes: Shapes of inputs, in place of those in the model, or `ANY`; "" names the only one, or all for `ANY`.
        warm_up: Shapes of the zeros it runs before it is ready; None for no such run.
        labels: The names of the classes that an output's last dimension counts.
        label_file: The name of the file that they are from.
        idle_unload_s: After how many seconds without a job it is unloaded, until the next; None for never.
        max_sequences: How many callers' states it keeps at once, if it keeps states.
        sequences_wait: Whether one caller more waits; else it is refused.
        sequence_idle_s: After how long without an inference a caller's states are freed.
        preprocessing: What is done to inputs before the model, by name; "" names the only one.
        file: The file of a version that is the model, where there are several.
        stated: What a configuration says of the model's inputs, outputs and states.
        unused: What Triton's configuration says that changes nothing here.
    """

    device: str | None = None
    properties: Properties = field(default_factory=dict[str, PropertyValue])
    precision: str | None = None
    slots: int | None = None
    version_policy: VersionPolicy | None = None
    batches: BatchOptions = _NO_BATCHES
    priority: int = 0
    time_limit_s: float | None = None
    weight: float = 1.0
    batch: Dimension | None = None
    shapes: dict[str, Shape | str] = field(default_factory=dict[str, Shape | str])
    warm_up: Mapping[str, tuple[int, ...]] | None = None
    labels: tuple[str, ...] = ()
    label_file: str = ""
    idle_unload_s: float | None = None
    max_sequences: int | None = None
    sequences_wait: bool | None = None
    sequence_idle_s: float | None = None
    preprocessing: dict[str, InputPreprocessing] = field(default_factory=dict[str, InputPreprocessing])
    file: str | None = None
    stated: StatedPorts | None = None
    unused: tuple[str, ...] = ()

    def source(self, path: Path) -> Source:
        """Say what is read if the model lies at this path, and how it is changed."""
        recorded = tuple(each.recorded(name) for name, each in self.preprocessing.items())
        reshape = {name: shape for name, shape in self.shapes.items() if not isinstance(shape, str)}
        free = frozenset(name for name, shape in self.shapes.items() if shape == ANY)
        return Source(
            path,
            reshape=reshape,
            free=free,
            batch=self.batch,
            preprocessing=recorded,
            stated=None if self.stated is None else self.stated.without_shapes(self.shapes),
            by_settings=True,
        )

    def options(self, name: str, defaults: ModelOptions, batches: BatchOptions = _NO_BATCHES) -> ModelOptions:
        """Say how the model of this name is compiled, by these defaults where its settings say nothing.

        Raises:
            UnfitSetting: If what is said of batching does not go together.
        """
        precision: Properties = {"INFERENCE_PRECISION_HINT": self.precision} if self.precision else {}
        return replace(
            defaults,
            name=name,
            device=self.device or defaults.device,
            properties={**defaults.properties, **self.properties, **precision},
            slots=self.slots or defaults.slots,
            batching=self.batches.batching(batches),
            priority=self.priority,
            time_limit_s=self.time_limit_s or defaults.time_limit_s,
            weight=self.weight,
            warm_up=self.warm_up,
            labels=self.labels,
            label_file=self.label_file,
            idle_unload_s=self.idle_unload_s,
            binding=self._binding(defaults.binding),
            pictures={name: each.pictures for name, each in self.preprocessing.items() if each.pictures},
        )

    def _binding(self, defaults: BindingTerms) -> BindingTerms:
        return BindingTerms(
            most=self.max_sequences or defaults.most,
            idle_s=self.sequence_idle_s or defaults.idle_s,
            may_wait=defaults.may_wait if self.sequences_wait is None else self.sequences_wait,
        )


def read_layer(path: Path) -> Layer:
    """Read a settings file without looking at what it says.

    Raises:
        ServingError: MODEL_FAILED if it is no file of the form.
    """
    name = f"{path.parent.name}/{path.name}"
    try:
        return Layer(name, tomllib.loads(read_text(path, is_read_again=True)))
    except RecursionError as error:
        raise ServingError(Code.MODEL_FAILED, f"{name} {_TOO_DEEP}") from error
    except (OSError, ValueError) as error:
        raise ServingError(Code.MODEL_FAILED, f"{name} cannot be read: {why_not_read(error)}") from error


def settings_from(layers: Sequence[Layer], folder: Path) -> ModelSettings:
    """Read the settings of a model from one or more layers; files that they name lie in the folder.

    Raises:
        ServingError: MODEL_FAILED naming who says it, the setting, what it was and what was expected.
    """
    layers, problems = _with_keys_alone(layers)
    table = flattened(layers)
    for source, sentences in _unknown(table, layers).items():
        problems.setdefault(source, []).extend(sentences)
    given: dict[str, Any] = {}
    try:
        known = {name: value for name, value in table.items() if name in READERS}
        given = items(known, partial(_read, folder))
    except UnfitValue as unfit:
        for path, sentence in unfit.each():
            layer = layer_of(layers, path)
            problems.setdefault(layer.source, []).append(f"{layer.called(path)} {sentence}")
    except RecursionError:
        problems.setdefault(layers[0].source, []).append(_TOO_DEEP)
    if problems:
        told = (f"{source}: {'; '.join(sentences)}" for source, sentences in problems.items())
        raise ServingError(Code.MODEL_FAILED, "; ".join(told))
    batches = batches_of(layers, given)
    own = {name: value for name, value in given.items() if name not in NAMES}
    return ModelSettings(**own, batches=batches, label_file=table.get("labels", ""))


def version_policy_from(layers: Sequence[Layer]) -> VersionPolicy | None:
    """Read the version policy of one or more layers; None where there is none, or one that is refused with the rest."""
    said = (layer.table["version_policy"] for layer in reversed(layers) if layer.says(["version_policy"]))
    try:
        return next(map(version_policy, said), None)
    except UnfitValue:
        return None


def _with_keys_alone(layers: Sequence[Layer]) -> tuple[list[Layer], dict[str, list[str]]]:
    """Replace batching properties of each layer by keys, and tell what is wrong with the properties, by source."""
    changed: list[Layer] = []
    problems: dict[str, list[str]] = {}
    for layer in layers:
        with_keys, sentences = with_keys_alone(layer)
        changed.append(with_keys)
        if sentences:
            problems.setdefault(layer.source, []).extend(sentences)
    return changed, problems


def _read(folder: Path, name: str, value: object) -> Any:
    found = READERS[name](value)
    return read_labels(folder, found) if name == "labels" else found


def _unknown(table: Mapping[str, object], layers: Sequence[Layer]) -> dict[str, list[str]]:
    """Tell which settings do not exist, by source."""
    unknown: dict[str, list[str]] = {}
    for name in table:
        if name not in READERS:
            unknown.setdefault(layer_of(layers, [name]).source, []).append(f"'{name}' is no setting{_meant(name)}")
    return {source: [f"{'; '.join(names)}, expected {', '.join(READERS)}"] for source, names in unknown.items()}


def _meant(name: str) -> str:
    """Ask whether another setting was meant, where one is called alike."""
    return "".join(f" (did you mean '{alike}'?)" for alike in get_close_matches(name, READERS, 1))
