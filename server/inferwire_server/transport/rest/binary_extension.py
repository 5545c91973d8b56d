"""The binary tensor extension: bytes behind the JSON document, in the order of the tensors.

Slices the received body and never copies it.
"""

from __future__ import annotations

from collections.abc import Sequence

from inferwire_proto import strings
from inferwire_proto.element_types import ElementType
from inferwire_server.core.specs import ModelSpec, PortSpec
from inferwire_server.core.tensor_checks import advice_on_picture, check_shape
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.transport.http.exchange import Body
from inferwire_server.transport.http.request_headers import length_of
from inferwire_server.transport.oip.datatypes import datatype_of, input_type

HEADER_LENGTH = b"inference-header-content-length"
"""The HTTP header with the length of the JSON document."""

RAW = 0
"""The header's value for a body that is one tensor and no document."""


class Tail:
    """What follows the document: the tensors take their bytes from it, one after the other."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._start = 0

    def take(self, size: object, prefix: str) -> memoryview:
        """Give a tensor its bytes.

        Raises:
            ServingError: INVALID_INPUT for a size that is none, or more than is there.
        """
        if type(size) is not int or size < 0:
            raise invalid_input(f"{prefix} has the binary_data_size {size!r}, expected an integer from 0 on")
        end = self._start + size
        missing = end - len(self._data)
        if missing > 0:
            raise invalid_input(f"the body ends inside {prefix}, expecting {missing} additional bytes")
        taken = self._data[self._start : end]
        self._start = end
        return taken

    def take_unstated(self, element_type: ElementType, shape: Sequence[int], prefix: str) -> memoryview:
        """Give its bytes to a tensor that states no size: as many as its shape has, or all that are left for strings.

        Raises:
            ServingError: INVALID_INPUT if there are none, or too few, or for a shape that no tensor has.
        """
        left = len(self._data) - self._start
        if not left:
            raise invalid_input(f"{prefix} has no 'data', expected an array, or bytes behind the document")
        check_shape(prefix, shape)
        return self.take(left if element_type.is_string else element_type.byte_size(shape), prefix)

    def finish(self) -> None:
        """Make sure that nothing is left.

        Raises:
            ServingError: INVALID_INPUT.
        """
        left = len(self._data) - self._start
        if left:
            raise invalid_input(f"unexpected additional input data: {left} bytes follow the last input, expected none")


def header_length(value: str | None, body_size: int) -> int:
    """Give the length of the JSON document; RAW for a body that is one tensor.

    Raises:
        ServingError: INVALID_INPUT for a header that is no number, or beyond the body.
    """
    if value is None:
        return body_size
    if not (value.isascii() and value.isdigit()):
        raise invalid_input(f"Inference-Header-Content-Length is '{value}', expected a whole number of bytes")
    length = length_of(value)
    if length > body_size:
        raise invalid_input(
            f"Inference-Header-Content-Length is {value}, expected at most the body's {body_size} bytes"
        )
    return length


def raw_input(spec: ModelSpec, body: Body) -> tuple[str, Tensor]:
    """Take a whole body as the one input of a model.

    Raises:
        ServingError: INVALID_INPUT if the model has several, or the size does not tell the shape,
            or the protocol has no such type.
    """
    if len(spec.inputs) != 1:
        raise invalid_input(
            f"a body that is one raw tensor (Inference-Header-Content-Length: 0) needs a model with one input, "
            f"model '{spec.name}' has {len(spec.inputs)}"
        )
    port = spec.inputs[0]
    input_type(datatype_of(port.element_type), port.oip_name, spec.name)
    shape = _raw_shape(spec, port, body)
    data = strings.pack([bytes(body)]) if port.element_type.is_string else memoryview(body)
    return port.oip_name, Tensor(port.element_type, shape, data)


def _raw_shape(spec: ModelSpec, port: PortSpec, body: Body) -> tuple[int, ...]:
    """Find the one shape that a raw body can have. A string tensor is one string."""
    dimensions = port.shape
    if dimensions is None:
        raise _shapeless(spec, port)
    if port.element_type.is_string:
        return tuple(dimension.min if dimension.is_static else 1 for dimension in dimensions)
    shape = [dimension.min if dimension.is_static else -1 for dimension in dimensions]
    if shape.count(-1) > 1:
        # Where the batch is open as well, a raw body is a batch of one.
        shape[0] = 1 if shape[0] == -1 else shape[0]
    if shape.count(-1) > 1:
        raise _shapeless(spec, port)
    if -1 in shape:
        row = port.element_type.byte_size([1 if length == -1 else length for length in shape])
        if row and len(body) % row:
            raise invalid_input(
                f"input '{port.oip_name}' of model '{spec.name}' has {len(body)} bytes, "
                f"expected a multiple of {row} for {port.element_type.name}{port.shape_text}{advice_on_picture(body)}"
            )
        shape[shape.index(-1)] = len(body) // row if row else 0
    return tuple(shape)


def _shapeless(spec: ModelSpec, port: PortSpec) -> ServingError:
    return invalid_input(
        f"input '{port.oip_name}' of model '{spec.name}' has the open shape {port.shape_text}, "
        "expected a request that states the tensor's shape in JSON"
    )
