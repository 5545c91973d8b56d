"""The Open Inference Protocol's inference request: its JSON document, and tensors behind it.

Turns bytes into an `OipDocument`, and that into an `Inference`, and knows nothing of sockets. Whether
the tensors fit the model is the service's to say; whether they are tensors at all is said here.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, cast

import orjson

from inferwire_proto.element_types import ElementType
from inferwire_server.core.limits import INT64_MAX
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import invalid_input
from inferwire_server.service.values import Inference, OutputForm, ServedModel, SharedTensor, Wanted
from inferwire_server.transport.http.bodies import present
from inferwire_server.transport.message_limits import check_few
from inferwire_server.transport.oip.datatypes import check_count, input_type
from inferwire_server.transport.oip.inference import output_form, wanted_of
from inferwire_server.transport.oip.parameters import Parameters
from inferwire_server.transport.oip.shared_memory import beside_region, place_of
from inferwire_server.transport.rest.binary_extension import Tail
from inferwire_server.transport.rest.json_elements import check_nesting, flatten, json_kind, pack

Document: TypeAlias = dict[str, Any]

LONGEST_KNOWN = 4096
"""Up to this many bytes, a document is kept for the next request that begins with the same."""

_MOST_KNOWN = 256

_FORM = b"--"
"""What a form in parts begins with, before its boundary; no JSON does."""


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """How an answer is written: its id, and which of the wanted outputs are binary."""

    request_id: str = ""
    is_binary: bool = False
    outputs: tuple[bool, ...] = ()

    def is_binary_output(self, index: int) -> bool:
        """Whether the answer's output of this position is binary."""
        return self.outputs[index] if index < len(self.outputs) else self.is_binary


@dataclass(frozen=True, slots=True)
class BinaryInput:
    """An input whose bytes follow the document; `what` names it. Its size is None where the document states none."""

    element_type: ElementType
    shape: tuple[int, ...]
    byte_size: object
    what: str


@dataclass(frozen=True, slots=True)
class OipDocument:
    """A request without the bytes that follow its document. One document serves any number of requests."""

    wanted: Wanted
    inputs: tuple[tuple[str, Tensor | SharedTensor | BinaryInput], ...]
    form: AnswerForm

    def inference(self, tail: Tail) -> Inference:
        """Give the inference that this document and these bytes ask for.

        Raises:
            ServingError: INVALID_INPUT for bytes that are too few or too many.
        """
        inputs = tuple([(name, _filled(given, tail)) for name, given in self.inputs])
        tail.finish()
        return Inference(self.wanted, inputs)


@dataclass(frozen=True, slots=True)
class _WantedOutput:
    name: str
    is_binary: bool
    form: OutputForm | None


def parse(document: bytes | memoryview, model: ServedModel) -> OipDocument:
    """Read a request's document.

    Raises:
        ServingError: INVALID_INPUT or UNIMPLEMENTED, for what is not as the protocol says.
    """
    request = _object(_load(document), "the request")
    request_id = _text(request.get("id", ""), "the request's 'id'")
    parameters = _parameters(request, "the request")
    is_binary = _flag(parameters, "binary_data_output", default=False, what="the request")
    inputs = tuple(_input(entry, model) for entry in _inputs(request))
    outputs = [_output(entry, default=is_binary) for entry in _entries(request, "outputs")]
    forms = {place: output.form for place, output in enumerate(outputs) if output.form is not None}
    form = AnswerForm(request_id, is_binary, tuple(output.is_binary for output in outputs))
    wanted = wanted_of(model, tuple(output.name for output in outputs), parameters, forms)
    return OipDocument(wanted, inputs, form)


def parse_long(document: bytes | memoryview, model: ServedModel) -> OipDocument:
    """Read a long document, with the garbage collector off.

    Reading makes no garbage. With many arrays, the collector would look at all of them again and again, which takes
    several times as long as reading them, and no other thread has a turn meanwhile.

    Raises:
        ServingError: As `parse` does.
    """
    is_looking = gc.isenabled()
    gc.disable()
    try:
        return parse(document, model)
    finally:
        if is_looking:
            gc.enable()


parse_known = lru_cache(_MOST_KNOWN)(parse)
"""Reads a short document, or remembers it: a caller whose tensors are binary sends the same one again and again."""


def _filled(given: Tensor | SharedTensor | BinaryInput, tail: Tail) -> Tensor | SharedTensor:
    if not isinstance(given, BinaryInput):
        return given
    element_type, shape, size, what = given.element_type, given.shape, given.byte_size, given.what
    data = tail.take_unstated(element_type, shape, what) if size is None else tail.take(size, what)
    return Tensor(element_type, shape, data)


def _load(document: bytes | memoryview) -> object:
    try:
        return orjson.loads(document)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith("Not enough memory"):
            raise MemoryError(error.msg) from error
        raise invalid_input(f"the request is malformed JSON: {error}{_hint(document, error)}") from error


def _hint(document: bytes | memoryview, error: orjson.JSONDecodeError) -> str:
    """Give advice if a form, or bytes behind a document or in its place, were read as it, or if it has NaN."""
    if bytes(document[:2]) == _FORM:
        return (
            "; a form's parts (multipart/form-data) are not read: the body is the document itself, or the file with "
            "Inference-Header-Content-Length: 0"
        )
    if "after document" in error.msg or "not valid UTF-8" in error.msg:
        return (
            "; where binary tensors follow it, Inference-Header-Content-Length says its length, "
            "which is 0 where the body is one tensor's bytes or a picture alone"
        )
    if error.doc.startswith(("NaN", "Infinity"), error.pos):
        return "; JSON has no NaN and no Infinity: send the tensor's bytes behind the document, with binary_data_size"
    return ""


def _inputs(request: Document) -> list[object]:
    if "inputs" not in request:
        raise invalid_input("the request has no 'inputs', expected an array of tensors")
    return _entries(request, "inputs")


def _entries(request: Document, key: str) -> list[object]:
    entries: object = request.get(key, [])
    if not isinstance(entries, list):
        raise invalid_input(f"the request's '{key}' is {json_kind(entries)}, expected an array")
    found = cast("list[object]", entries)
    check_few(key, len(found))
    return found


def _input(entry: object, model: ServedModel) -> tuple[str, Tensor | SharedTensor | BinaryInput]:
    tensor = _object(entry, "an input of the request")
    name = _text(_required(tensor, "name", "an input of the request", "a string"), "the 'name' of an input")
    prefix = f"input '{name}' of model '{model.name}'"
    datatype = _text(_required(tensor, "datatype", prefix, "a string"), f"the 'datatype' of {prefix}")
    element_type = input_type(datatype, name, model.name)
    shape = _shape(_required(tensor, "shape", prefix, "an array of integers"), prefix)
    parameters = _parameters(tensor, prefix)
    if (place := place_of(parameters, f"input '{name}'")) is not None:
        if given := [way for way in ("data", "binary_data_size") if way in tensor or way in parameters]:
            raise beside_region(f"input '{name}'", given[0])
        return name, SharedTensor(element_type, shape, place)
    if "data" not in tensor:
        return name, BinaryInput(element_type, shape, parameters.get("binary_data_size"), prefix)
    if "binary_data_size" in parameters:
        raise invalid_input(f"{prefix} has both 'data' and 'binary_data_size', expected one of them")
    elements, lengths = flatten(tensor["data"], prefix)
    check_count(len(elements), shape, datatype, name, model.name)
    check_nesting(lengths, shape, prefix)
    return name, Tensor(element_type, shape, pack(elements, element_type, prefix))


def _output(entry: object, *, default: bool) -> _WantedOutput:
    output = _object(entry, "an output of the request")
    name = _text(_required(output, "name", "an output of the request", "a string"), "the 'name' of an output")
    parameters = _parameters(output, f"output '{name}'")
    is_binary = _flag(parameters, "binary_data", default=default, what=f"output '{name}'")
    return _WantedOutput(name, is_binary, output_form(parameters, name))


def _object(value: object, what: str) -> Document:
    if not isinstance(value, dict):
        raise invalid_input(f"{what} is {json_kind(value)}, expected an object")
    return present(cast("Document", value))


def _required(owner: Document, key: str, what: str, expected: str) -> object:
    if key not in owner:
        raise invalid_input(f"{what} has no '{key}', expected {expected}")
    return owner[key]


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise invalid_input(f"{what} is {json_kind(value)}, expected a string")
    return value


def _shape(value: object, prefix: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise invalid_input(f"the 'shape' of {prefix} is {json_kind(value)}, expected an array of integers")
    shape = cast("list[object]", value)
    for dimension in shape:
        if type(dimension) is not int or not 0 <= dimension <= INT64_MAX:
            shown = dimension if isinstance(dimension, int | float) else json_kind(dimension)
            raise invalid_input(f"the 'shape' of {prefix} has {shown}, expected integers from 0 on")
    return tuple(cast("list[int]", shape))


def _parameters(owner: Document, what: str) -> Parameters:
    if "parameters" not in owner:
        return {}
    parameters = _object(owner["parameters"], f"the 'parameters' of {what}")
    check_few("parameters", len(parameters))
    for name, value in parameters.items():
        if not isinstance(value, bool | int | float | str):
            raise invalid_input(
                f"parameter '{name}' of {what} is {json_kind(value)}, expected a boolean, a number or a string"
            )
    return parameters


def _flag(parameters: Parameters, name: str, *, default: bool, what: str) -> bool:
    value = parameters.get(name, default)
    if not isinstance(value, bool):
        raise invalid_input(f"parameter '{name}' of {what} is {json_kind(value)}, expected a boolean")
    return value
