"""What Triton's file beside a model's versions, `config.pbtxt`, says of the model, as settings of ours.

It is a model configuration in protobuf's text format. Fields without a counterpart here make the model fail if they
change what callers get, all of them in one message; those that only tune Triton are named, and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import text_format

from inferwire_proto.element_types import BY_OIP, ElementType
from inferwire_proto.errors import Code
from inferwire_server.core.stated_ports import StatedPort, StatedPorts
from inferwire_server.errors import ServingError
from inferwire_server.open_inference.model_config import (
    RESHAPE,
    WITHOUT_EFFECT,
    is_yes,
    others_said,
    settings_of,
    those_said,
)
from inferwire_server.open_inference.stubs import model_config_pb2 as pb

MIGRATION = "docs/from-triton.md says what maps to what"

_BACKENDS = ("openvino", "onnxruntime", "tensorflow")
_PLATFORMS = ("openvino", "onnxruntime_onnx", "tensorflow_savedmodel", "tensorflow_graphdef")

_ROW_LAYOUTS: Mapping[pb.ModelInput.Format.ValueType, str] = {
    pb.ModelInput.FORMAT_NCHW: "CHW",
    pb.ModelInput.FORMAT_NHWC: "HWC",
}
"""What the formats of inputs say of one picture."""

_READ_HERE = ("default_model_filename", "model_warmup")

_REFUSED: Mapping[str, str] = {
    "ensemble_scheduling": "ensembles are not offered, callers call one model after the other",
    "model_transaction_policy.decoupled": "a request has one answer here",
    "sequence_batching.control_input": "no input says where a sequence starts or ends, it is the request that says so",
    "sequence_batching.state": "states are those that the model keeps itself",
    "sequence_batching.iterative_sequence": "a request has one inference here",
    "batch_input": "inputs are what callers send",
    "batch_output": "outputs are the model's own",
    "input.reshape": "callers send the shapes that the model takes",
    "output.reshape": "callers get the shapes that the model gives",
    "input.is_shape_tensor": "OpenVINO has none",
    "output.is_shape_tensor": "OpenVINO has none",
    "input.is_non_linear_format_io": "OpenVINO has none",
    "output.is_non_linear_format_io": "OpenVINO has none",
    "input.allow_ragged_batch": "the rows of a batch have one shape",
    "input.optional": "callers send every input",
    "model_repository_agents": "models are read from files as they are",
}
"""The fields that change what callers get, and why they are not offered. The fields within them are not either."""


@dataclass(frozen=True, slots=True)
class FileConfig:
    """What a file says of a model.

    Attributes:
        source: What an error calls the file.
        settings: What it says as the model's `inferwire.toml` would.
        stated: What it says of the model's inputs, outputs and states.
        unused: The fields that say something and change nothing here.
    """

    source: str
    settings: Mapping[str, Any]
    stated: StatedPorts
    unused: tuple[str, ...]


def read_config_file(text: str, name: str | None, source: str) -> FileConfig:
    """Read the text of a file for the model of this name, or of any name; `source` is what an error calls the file.

    Raises:
        ServingError: MODEL_FAILED with all that is wrong, or with the line of what cannot be read.
    """
    config, says_batch = _parse(text, source)
    others = sorted(set(others_said(config)))
    problems = [*_problems(config, name), *_refused(others)]
    if problems:
        raise ServingError(Code.MODEL_FAILED, f"{source}: {'; '.join(problems)} ({MIGRATION})")
    try:
        settings = settings_of(config, says_batch=says_batch, who=source)
    except ServingError as error:
        raise ServingError(Code.MODEL_FAILED, f"{error.message} ({MIGRATION})") from error
    is_reshaped = is_yes(config.parameters[RESHAPE].string_value) if RESHAPE in config.parameters else False
    is_openvino = config.backend in ("", "openvino") and config.platform in ("", "openvino")
    settings |= {
        "shapes": settings["shapes"] if is_reshaped else None,
        "properties": settings["properties"] if is_openvino else None,
        "labels": next(iter(_label_files(config)), None),
        "file": config.default_model_filename or None,
        "warm_up": _warm_up(config),
    }
    unused = [field for field in others if not _lies_in(field, _READ_HERE)]
    own = WITHOUT_EFFECT if is_openvino else tuple(config.parameters)
    unused += [f"parameters.{parameter}" for parameter in sorted(config.parameters) if parameter in own]
    return FileConfig(source, those_said(settings), _stated(config, source), tuple(unused))


def _parse(text: str, source: str) -> tuple[pb.ModelConfig, bool]:
    """Read the message, and whether it says a largest batch: in the message, 0 and nothing are the same."""
    try:
        config = text_format.Parse(text, pb.ModelConfig())
    except text_format.ParseError as error:
        where = f"line {error.GetLine()}, column {error.GetColumn()}"
        reason = str(error).partition(" : ")[2]
        raise ServingError(Code.MODEL_FAILED, f"{source} cannot be read: {where}: {reason}") from error
    except ValueError as error:
        # The number of an enumeration's value that no message can have.
        raise ServingError(Code.MODEL_FAILED, f"{source} cannot be read: {error}") from error
    says_none = text_format.Merge(text, pb.ModelConfig(max_batch_size=1)).max_batch_size == 0
    return config, says_none or config.max_batch_size != 0


def _problems(config: pb.ModelConfig, name: str | None) -> Iterator[str]:
    if name is not None and config.name not in ("", name):
        yield f"name is '{config.name}', expected that of the model's folder, '{name}'"
    for field, given, taken in (("platform", config.platform, _PLATFORMS), ("backend", config.backend, _BACKENDS)):
        if given not in ("", *taken):
            yield f"{field} is '{given}', expected one of {', '.join(taken)}: OpenVINO runs every model here"
    for what, ports in (("input", config.input), ("output", config.output)):
        for each in ports:
            if each.data_type not in pb.DataType.values():
                yield f"{what} '{each.name}' has the data_type {each.data_type}, expected a type's name, as TYPE_FP32"
    files = _label_files(config)
    if len(files) > 1:
        yield f"outputs have the label_filename {', '.join(files)}, expected one: a model has one list of labels"


def _refused(fields: Sequence[str]) -> Iterator[str]:
    for refused, reason in _REFUSED.items():
        if any(_lies_in(field, (refused,)) for field in fields):
            yield f"{refused} is set: {reason}"


def _lies_in(field: str, parents: Iterable[str]) -> bool:
    return any(field == parent or field.startswith(f"{parent}.") for parent in parents)


def _label_files(config: pb.ModelConfig) -> list[str]:
    return sorted({output.label_filename for output in config.output if output.label_filename})


def _stated(config: pb.ModelConfig, source: str) -> StatedPorts:
    rows, has_sequences = max(config.max_batch_size, 0), config.HasField("sequence_batching")
    return StatedPorts(source, _ports(config.input), _ports(config.output), rows, has_sequences)


def _ports(given: Iterable[pb.ModelInput | pb.ModelOutput]) -> dict[str, StatedPort]:
    return {
        each.name: StatedPort(_element_type(each.data_type), tuple(each.dims) or None, _row_layout(each))
        for each in given
    }


def _element_type(given: pb.DataType.ValueType) -> ElementType | None:
    name = pb.DataType.Name(given).removeprefix("TYPE_")
    return BY_OIP.get("BYTES" if name == "STRING" else name)


def _row_layout(given: pb.ModelInput | pb.ModelOutput) -> str | None:
    return _ROW_LAYOUTS.get(given.format) if isinstance(given, pb.ModelInput) else None


def _warm_up(config: pb.ModelConfig) -> dict[str, list[int]]:
    """Give the shapes of the first sample: every slot runs once, and on zeros."""
    for sample in config.model_warmup:
        rows = [max(sample.batch_size, 1)] if config.max_batch_size > 0 else []
        return {name: [*rows, *given.dims] for name, given in sample.inputs.items()}
    return {}
