"""A model's outputs as people read them: classes by name if an output has one value for each, else a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Any

import numpy as np
from rich.text import Text

from inferwire.graph.described import PortDescription
from inferwire.values.types import Type
from inferwire_cli.infer.elements import Array
from inferwire_proto import bf16

FEW = 8
"""How many values of an output are shown; all of them if it has no more."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One output."""

    port: PortDescription
    array: Array

    @property
    def heading(self) -> str:
        """Its name, type and shape."""
        lengths = ",".join(map(str, self.array.shape))
        return f"{self.port.oip_name} {self.port.element_type.type_name}[{lengths}]"


@dataclass(frozen=True, slots=True)
class Guess:
    """A class that a model sees."""

    label: str
    index: int
    probability: float


def numbers_of(array: Array, element_type: Type) -> Array:
    """Give the numbers of an output: openvino shows those of bf16 as bits of f16."""
    return bf16.to_float32(array) if element_type == Type.bf16 else array


def guesses(answer: Answer, labels: Sequence[str], count: int) -> list[list[Guess]]:
    """Give the most probable classes of each row, the best first; none if the output has no value for each class."""
    array = answer.array
    is_number = np.issubdtype(array.dtype, np.number)
    if not (labels and is_number and array.ndim and array.shape[-1] == len(labels)):
        return []
    return [_best(row, labels, count) for row in array.reshape(-1, len(labels)).astype(np.float64)]


def probabilities(row: Array) -> Array:
    """Give the row itself if it holds probabilities already, else its softmax."""
    if row.min() >= 0 and abs(row.sum() - 1) < 0.01:
        return row
    with np.errstate(invalid="ignore"):  # rows with infinite numbers may have no softmax
        powers = np.exp(row - row.max())
        return powers / powers.sum()


def lines(answer: Answer, labels: Sequence[str], count: int) -> Iterator[Text]:
    """Describe an output."""
    yield Text(answer.heading, "bold")
    rows = guesses(answer, labels, count)
    for number, row in enumerate(rows):
        if len(rows) > 1:
            yield Text(f"  row {number}", "dim")
        for guess in row:
            index = "" if guess.label == str(guess.index) else f" ({guess.index})"
            yield Text.assemble(f"  {guess.probability:8.4f}  ", (guess.label, "cyan"), (index, "dim"))
    if not rows:
        yield from (Text(f"  {line}") for line in summary(answer.array))


def summary(array: Array) -> Iterator[str]:
    """Describe the content of an array: all of it if that is little."""
    flat = array.reshape(-1)
    if not flat.size:
        yield "no elements"
        return
    if np.issubdtype(array.dtype, np.number) and flat.size > FEW:
        floats = flat.astype(np.float64)
        with np.errstate(invalid="ignore"):  # infinite numbers may have no mean
            yield f"min {floats.min():.6g}   max {floats.max():.6g}   mean {floats.mean():.6g}"
    shown = " ".join(_spoken(value) for value in flat[:FEW])
    yield shown if flat.size <= FEW else f"{shown} ..."


def as_document(answer: Answer, labels: Sequence[str], count: int) -> dict[str, Any]:
    """Give an output as JSON."""
    name, type_name = answer.port.oip_name, answer.port.element_type.type_name
    flat: list[Any] = answer.array.reshape(-1).tolist()
    data = [_in_json(each) for each in flat]
    document = {"name": name, "type": type_name, "shape": list(answer.array.shape), "data": data}
    rows = guesses(answer, labels, count)
    if rows:
        document["classes"] = [
            [{"label": each.label, "index": each.index, "probability": _in_json(each.probability)} for each in row]
            for row in rows
        ]
    return document


def _in_json(value: Any) -> Any:
    """Give a text for a number that JSON lacks, as protobuf writes it in JSON."""
    if not isinstance(value, float) or isfinite(value):
        return value
    if isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _best(row: Array, labels: Sequence[str], count: int) -> list[Guess]:
    likely = probabilities(row)
    best: list[int] = np.argsort(-likely, kind="stable")[:count].tolist()
    return [Guess(labels[index], index, float(likely[index])) for index in best]


def _spoken(value: Any) -> str:
    if isinstance(value, np.floating):
        return f"{value:.6g}"
    return repr(str(value)) if isinstance(value, str) else str(value)
