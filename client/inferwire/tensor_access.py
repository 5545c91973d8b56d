"""Reading and setting the tensors of a request, by name, position and port.

Owns the overloads of openvino's getters and setters; whether a tensor fits is `request_tensors`'
business, whether the request is idle `request_state`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, cast, overload

from inferwire.arguments import as_size, incompatible
from inferwire.model_ports import ModelPorts
from inferwire.ports import ConstOutput
from inferwire.request_state import RequestState
from inferwire.request_tensors import RequestTensors
from inferwire.tensor import Tensor


class TensorAccess:
    """The part of a request that gives and takes tensors. All of it needs an idle request."""

    def __init__(self, ports: ModelPorts) -> None:
        self._state = RequestState()
        self._tensors = RequestTensors(ports)

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors of all inputs, in the model's order.

        Raises:
            RuntimeError: While the request is busy.
        """
        with self._state.idle():
            return [Tensor.over(tensor.memory) for tensor in self._tensors.inputs]

    @property
    def output_tensors(self) -> list[Tensor]:
        """The tensors of all outputs, in the model's order.

        Raises:
            RuntimeError: While the request is busy.
        """
        with self._state.idle():
            return [Tensor.over(tensor.memory) for tensor in self._tensors.outputs]

    def get_tensor(self, port: str | ConstOutput) -> Tensor:
        """Give the tensor of an input or output. Mirrors `openvino.InferRequest.get_tensor`.

        The memory is the request's own: later inferences change what the tensor shows.

        Args:
            port: One of the port's names, or the port.

        Raises:
            TypeError: For any other key.
            RuntimeError: If the model has no such port, or while the request is busy.
        """
        with self._state.idle():
            found = self._tensors.tensor_at(self._checked_key("get_tensor", port))
            return Tensor.over(found.memory)

    def get_input_tensor(self, *args: int, **kwargs: int) -> Tensor:
        """Give the tensor of an input, by its position, or of the only one without.

        Mirrors `openvino.InferRequest.get_input_tensor(index)`.

        Raises:
            TypeError: For what is no position.
            RuntimeError: If there is no such input, or while the request is busy.
        """
        index = self._index("get_input_tensor", args, kwargs)
        with self._state.idle():
            return Tensor.over(self._tensors.get(self._tensors.input_port(index)).memory)

    def get_output_tensor(self, *args: int, **kwargs: int) -> Tensor:
        """Give the tensor of an output, by its position, or of the only one without.

        Mirrors `openvino.InferRequest.get_output_tensor(index)`. A tensor held here shows what
        later inferences give, shape included.

        Raises:
            TypeError: For what is no position.
            RuntimeError: If there is no such output, or while the request is busy.
        """
        index = self._index("get_output_tensor", args, kwargs)
        with self._state.idle():
            return Tensor.over(self._tensors.get(self._tensors.output_port(index)).memory)

    def set_tensor(self, port: str | ConstOutput, tensor: Tensor) -> None:
        """Make a tensor that of an input or output: its memory is read and written from now on.

        Mirrors `openvino.InferRequest.set_tensor`.

        Raises:
            TypeError: For any other key, or what is no tensor.
            RuntimeError: If there is no such port, if type or shape do not fit, or while the
                request is busy.
        """
        key = self._checked_key("set_tensor", port, tensor)
        with self._state.idle():
            self._tensors.place(key, self._checked_tensor("set_tensor", tensor, port, tensor))

    @overload
    def set_input_tensor(self, index: int, tensor: Tensor) -> None: ...
    @overload
    def set_input_tensor(self, tensor: Tensor) -> None: ...
    def set_input_tensor(self, *args: Any, **kwargs: Any) -> None:
        """Make a tensor that of an input, by its position, or of the only one without.

        Mirrors `openvino.InferRequest.set_input_tensor`.

        Raises:
            TypeError: For arguments of other types.
            RuntimeError: If there is no such input, if type or shape do not fit, or while the
                request is busy.
        """
        index, tensor = self._placement("set_input_tensor", args, kwargs)
        with self._state.idle():
            self._tensors.place(index, tensor)

    @overload
    def set_output_tensor(self, index: int, tensor: Tensor) -> None: ...
    @overload
    def set_output_tensor(self, tensor: Tensor) -> None: ...
    def set_output_tensor(self, *args: Any, **kwargs: Any) -> None:
        """Make a tensor that of an output: the next inferences write into its memory.

        Mirrors `openvino.InferRequest.set_output_tensor`.

        Differs from OpenVINO: a region of another tensor is written correctly, where openvino's CPU
        device corrupts memory.

        Raises:
            TypeError: For arguments of other types.
            RuntimeError: If there is no such output, if type or shape do not fit, or while the
                request is busy.
        """
        index, tensor = self._placement("set_output_tensor", args, kwargs)
        with self._state.idle():
            self._tensors.place_output(index, tensor)

    def set_tensors(self, inputs: Mapping[str | int | ConstOutput, Tensor], *batch: object) -> None:
        """Set several tensors, by name, input position or port.

        Mirrors `openvino.InferRequest.set_tensors`.

        Differs from OpenVINO: lists of tensors that make one batch are not taken.

        Raises:
            TypeError: For arguments of other types.
            RuntimeError: As `set_tensor`.
        """
        if batch:
            refuse_batches()
        tensors = self._checked_mapping("set_tensors", inputs, str | int | ConstOutput)
        with self._state.idle():
            for key, tensor in tensors.items():
                self._tensors.place(key, tensor)

    def set_input_tensors(self, inputs: Mapping[int, Tensor], *batch: object) -> None:
        """Set the tensors of several inputs, by position.

        Mirrors `openvino.InferRequest.set_input_tensors`.

        Differs from OpenVINO: lists of tensors that make one batch are not taken.

        Raises:
            TypeError: For arguments of other types.
            RuntimeError: As `set_input_tensor`.
        """
        if batch or isinstance(inputs, list):
            refuse_batches()
        tensors = self._checked_mapping("set_input_tensors", inputs, int)
        with self._state.idle():
            for index, tensor in tensors.items():
                self._tensors.place(index, tensor)

    def set_output_tensors(self, outputs: Mapping[int, Tensor]) -> None:
        """Set the tensors of several outputs, by position.

        Mirrors `openvino.InferRequest.set_output_tensors`.

        Raises:
            TypeError: For arguments of other types.
            RuntimeError: As `set_output_tensor`.
        """
        tensors = self._checked_mapping("set_output_tensors", outputs, int)
        with self._state.idle():
            for index, tensor in tensors.items():
                self._tensors.place_output(index, tensor)

    def _checked_key(self, function: str, key: object, *rest: object) -> str | ConstOutput:
        if not isinstance(key, str | ConstOutput):
            signatures = (f"(self: InferRequest, {name}...)" for name in ("name: str", "port: ConstOutput"))
            raise incompatible(function, *signatures, invoked=(self, key, *rest))
        return key

    def _checked_tensor(self, function: str, tensor: object, *invoked: object) -> Tensor:
        if not isinstance(tensor, Tensor):
            signature = "(self: InferRequest, ..., tensor: Tensor)"
            raise incompatible(function, signature, invoked=(self, *invoked))
        return tensor

    def _index(self, function: str, args: tuple[object, ...], kwargs: dict[str, Any]) -> int | None:
        """Read the overloads `(index)` and `()`."""
        given = (*args, *kwargs.values())
        index = as_size(given[0]) if len(given) == 1 and kwargs.keys() <= {"index"} else None
        if given and index is None:
            signatures = ("(self: InferRequest, index: int) -> Tensor", "(self: InferRequest) -> Tensor")
            raise incompatible(function, *signatures, invoked=(self, *args), keywords=kwargs)
        return index

    def _placement(self, function: str, args: tuple[object, ...], kwargs: dict[str, Any]) -> tuple[int | None, Tensor]:
        """Read the overloads `(index, tensor)` and `(tensor)`."""
        names = ("index", "tensor") if len(args) + len(kwargs) == 2 else ("tensor",)
        given = dict(zip(names, args, strict=False)) | kwargs
        index, tensor = as_size(given.get("index", 0)), given.get("tensor")
        if given.keys() != set(names) or index is None or not isinstance(tensor, Tensor):
            signatures = ("(self: InferRequest, index: int, tensor: Tensor)", "(self: InferRequest, tensor: Tensor)")
            raise incompatible(function, *signatures, invoked=(self, *args), keywords=kwargs)
        return (index if "index" in given else None), tensor

    def _checked_mapping(self, function: str, tensors: object, kinds: Any) -> dict[Any, Tensor]:
        if not isinstance(tensors, dict):
            raise incompatible(function, "(self: InferRequest, dict)", invoked=(self, tensors))
        checked = cast("dict[object, object]", tensors)
        for key, tensor in checked.items():
            if not isinstance(key, kinds):
                raise TypeError("incompatible function arguments!")
            if not isinstance(tensor, Tensor):
                raise TypeError(f"Unable to cast {type(tensor)} object to ov::Tensor")
        return cast("dict[Any, Tensor]", checked)


def refuse_batches() -> NoReturn:
    """Refuse a list of tensors that make one batch."""
    raise RuntimeError(
        "a list of tensors as one batch is not offered by this version of inferwire; join them into one tensor"
    )
