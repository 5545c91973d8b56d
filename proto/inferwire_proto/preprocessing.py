"""What is recorded on OpenVINO's PrePostProcessor: the one table of its calls, and how a call travels.

A recording is the calls themselves, in their order. Only OpenVINO says what they mean and which of them do not go
together, when it builds them into a model. Knows neither side's models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from inferwire_proto.inferwire.v1 import models_pb2 as pb
from inferwire_proto.properties import PropertyValue, from_wire, to_wire

COLOR_FORMAT = "preprocess.ColorFormat"
RESIZE_ALGORITHM = "preprocess.ResizeAlgorithm"
PADDING_MODE = "preprocess.PaddingMode"

METHODS: Mapping[tuple[str, str], frozenset[str]] = {
    ("input", "tensor"): frozenset(
        {
            "set_color_format",
            "set_element_type",
            "set_layout",
            "set_memory_type",
            "set_shape",
            "set_spatial_dynamic_shape",
            "set_spatial_static_shape",
        }
    ),
    ("input", "preprocess"): frozenset(
        {
            "convert_color",
            "convert_element_type",
            "convert_layout",
            "crop",
            "mean",
            "pad",
            "resize",
            "reverse_channels",
            "scale",
        }
    ),
    ("input", "model"): frozenset({"set_layout"}),
    ("output", "postprocess"): frozenset({"convert_element_type", "convert_layout"}),
    ("output", "tensor"): frozenset({"set_element_type", "set_layout"}),
    ("output", "model"): frozenset({"set_layout"}),
}
"""The calls that exist, by the kind of port and the part of it that they are made on."""


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded call: `PrePostProcessor.input(port).tensor().set_layout("NHWC")`.

    Attributes:
        kind: "input" or "output".
        port: The port's name or its position; None for the only one.
        part: "tensor", "preprocess", "postprocess" or "model".
        method: The call's name.
        arguments: Its arguments in order; layouts and shapes as OpenVINO writes them. A type that is left out is the
            dynamic one.
    """

    kind: str
    port: str | int | None
    part: str
    method: str
    arguments: tuple[PropertyValue, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a call that is not in the table."""
        if self.method not in METHODS.get((self.kind, self.part), ()):
            raise ValueError(f"{self.kind}().{self.part}().{self.method}() is no call of PrePostProcessor")


@dataclass(frozen=True, slots=True)
class PortLayout:
    """The layout of one input or output, as OpenVINO writes it; a port has it by its position."""

    is_output: bool
    index: int
    layout: str


@dataclass(frozen=True, slots=True)
class Recording:
    """All that OpenVINO's PrePostProcessor knows of a model when it says what it would make of it.

    Attributes:
        calls: The calls, in order.
        layouts: The layouts of the model's ports, whether a program or the model's file gave them.
        built_calls: How many of the calls were made before they were built in; 0 if they were not.
    """

    calls: tuple[Call, ...]
    layouts: tuple[PortLayout, ...] = ()
    built_calls: int = 0


def calls_to_wire(calls: Iterable[Call]) -> list[pb.PreprocessingCall]:
    """Encode a recording."""
    return [_to_wire(call) for call in calls]


def calls_from_wire(calls: Iterable[pb.PreprocessingCall]) -> tuple[Call, ...]:
    """Decode a recording.

    Raises:
        ValueError: For a call that is not in the table, or an argument that cannot be read.
    """
    return tuple(_from_wire(call) for call in calls)


def put_recording(request: pb.DescribePreprocessingRequest, recording: Recording) -> None:
    """Write a recording into the call that asks about it."""
    request.calls.extend(calls_to_wire(recording.calls))
    request.built_calls = recording.built_calls
    for each in recording.layouts:
        request.layouts.add(is_output=each.is_output, index=each.index, layout=each.layout)


def recording_of(request: pb.DescribePreprocessingRequest) -> Recording:
    """Read the recording that a call asks about.

    Raises:
        ValueError: For a call that is not in the table, or an argument that cannot be read.
    """
    layouts = tuple(PortLayout(each.is_output, each.index, each.layout) for each in request.layouts)
    return Recording(calls_from_wire(request.calls), layouts, request.built_calls)


def _to_wire(call: Call) -> pb.PreprocessingCall:
    message = pb.PreprocessingCall(
        is_output=call.kind == "output",
        part=call.part,
        method=call.method,
        arguments=[to_wire(argument) for argument in call.arguments],
    )
    if isinstance(call.port, str):
        message.name = call.port
    elif call.port is not None:
        message.index = call.port
    return message


def _from_wire(message: pb.PreprocessingCall) -> Call:
    port = message.WhichOneof("port")
    return Call(
        "output" if message.is_output else "input",
        None if port is None else message.name if port == "name" else message.index,
        message.part,
        message.method,
        tuple(from_wire(argument) for argument in message.arguments),
    )
