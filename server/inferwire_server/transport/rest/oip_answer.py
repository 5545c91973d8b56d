"""The Open Inference Protocol's answer: a JSON document, and binary tensors behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from inferwire_server.transport.oip.inference import OipAnswer, OipOutput
from inferwire_server.transport.oip.shared_memory import parameters_of
from inferwire_server.transport.rest.json_elements import WITH_ARRAYS, unpack
from inferwire_server.transport.rest.oip_request import AnswerForm


@dataclass(frozen=True, slots=True)
class Written:
    """An answer's bytes; the length of its document where binary tensors follow it."""

    body: bytes
    header_length: int | None


def json_byte_size(answer: OipAnswer, form: AnswerForm) -> int:
    """Count the bytes of the tensors that become JSON: what makes writing slow."""
    return sum(
        output.tensor.byte_size
        for index, output in enumerate(answer.outputs)
        if output.place is None and not form.is_binary_output(index)
    )


def write(answer: OipAnswer, form: AnswerForm) -> Written:
    """Write an answer.

    Raises:
        ServingError: INVALID_INPUT for an output that JSON cannot carry.
    """
    parts: list[bytes | memoryview] = []
    outputs: list[dict[str, Any]] = []
    for index, output in enumerate(answer.outputs):
        described: dict[str, Any] = {
            "name": output.name,
            "datatype": output.datatype,
            "shape": output.tensor.shape,
        }
        if output.place is not None:
            # Triton's C++ client does not read parameters without this one.
            described["parameters"] = parameters_of(output.place, output.tensor.byte_size) | {"binary_data_size": 0}
        elif form.is_binary_output(index):
            described["parameters"] = {"binary_data_size": output.tensor.byte_size}
            parts.append(output.tensor.data)
        else:
            described["data"] = unpack(output.tensor, _prefix(answer, output))
        outputs.append(described)
    document = _document(answer, form, outputs)
    return Written(b"".join((document, *parts)), len(document)) if parts else Written(document, None)


def _document(answer: OipAnswer, form: AnswerForm, outputs: list[dict[str, Any]]) -> bytes:
    document: dict[str, Any] = {"model_name": answer.model_name}
    if answer.model_version:
        document["model_version"] = answer.model_version
    if form.request_id:
        document["id"] = form.request_id
    document["outputs"] = outputs
    return orjson.dumps(document, option=WITH_ARRAYS)


def _prefix(answer: OipAnswer, output: OipOutput) -> str:
    return f"output '{output.name}' of model '{answer.model_name}'"
