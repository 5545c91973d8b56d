"""Reading and setting the tensors of a request, by name, position and port.

Owns the overloads of openvino's getters and setters; whether a tensor fits is `port_fit`'s
business, whether the request is idle `request_state`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, SupportsIndex, TypeVar, cast, overload

from inferwire.arguments import Unpicklable, as_size, in_order, incompatible, is_list, openvino_class
from inferwire.graph.foreign_ports import as_port
from inferwire.graph.model_ports import ModelPort
from inferwire.graph.ports import Port
from inferwire.requests.request_state import RequestState
from inferwire.requests.request_tensors import RequestTensors
from inferwire.requests.several_tensors import by_any_key, by_position, memory_of_items
from inferwire.tensors.memory import Memory, OverMemory
from inferwire.tensors.remote_tensor import RemoteTensor
from inferwire.tensors.tensor import Tensor, as_tensor
from inferwire.tensors.tensor_vector import TensorVector
from inferwire.user_warnings import warn_of_old_name

# Dictionaries are invariant: to a type checker, one of tensors is none of tensors or remote tensors. So keys and values
# have to be of type variables.
K = TypeVar("K", bound=str | int | Port)
T = TypeVar("T", bound=OverMemory)

_BATCHES = (
    "(self: InferRequest, inputs: dict) -> None",
    "(self: InferRequest, tensors: TensorVector | list) -> None",
    "(self: InferRequest, key: int | str | ConstOutput, tensors: TensorVector | list) -> None",
)


class TensorAccess(Unpicklable):
    """The part of a request that gives and takes tensors. All of it needs an idle request."""

    def __init__(self, state: RequestState, tensors: RequestTensors) -> None:
        self._state = state
        self._tensors = tensors

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors of all inputs, in the model's order. Mirrors `openvino.InferRequest.input_tensors`.

        Raises:
            RuntimeError: While the request is busy.
        """
        self._state.check_idle()
        return [Tensor.over(self._tensors.get(port)) for port in self._tensors.ports.inputs]

    @property
    def output_tensors(self) -> list[Tensor]:
        """The tensors of all outputs, in the model's order. Mirrors `openvino.InferRequest.output_tensors`.

        Raises:
            RuntimeError: While the request is busy.
        """
        self._state.check_idle()
        return list(map(Tensor.over, self._tensors.outputs))

    @property
    def inputs(self) -> list[Tensor]:
        """Give `input_tensors`: openvino's name of it until 2023. Deprecated."""
        warn_of_old_name("InferRequest.inputs", "input_tensors")
        return self.input_tensors

    @property
    def outputs(self) -> list[Tensor]:
        """Give `output_tensors`: openvino's name of it until 2023. Deprecated."""
        warn_of_old_name("InferRequest.outputs", "output_tensors")
        return self.output_tensors

    @overload
    def get_tensor(self, name: str) -> Tensor: ...
    @overload
    def get_tensor(self, port: Port) -> Tensor: ...
    def get_tensor(self, *args: Any, **kwargs: Any) -> Tensor:
        """Give the tensor of an input or output. Mirrors `openvino.InferRequest.get_tensor`.

        The memory is the request's own: later inferences change what the tensor shows.

        Raises:
            TypeError: For what is neither one of the port's names nor a port.
            RuntimeError: If the model has no such port, or while the request is busy.
        """
        given = in_order(args, kwargs, ("name",), ("port",))
        self._state.check_idle()
        key = self._key("get_tensor", None if given is None else given[0], args, kwargs)
        return Tensor.over(self._tensors.at(key))

    @overload
    def get_input_tensor(self) -> Tensor: ...
    @overload
    def get_input_tensor(self, index: SupportsIndex) -> Tensor: ...
    def get_input_tensor(self, *args: Any, **kwargs: Any) -> Tensor:
        """Give the tensor of an input, by its position; without one, of the only input.

        Mirrors `openvino.InferRequest.get_input_tensor(index)`.

        Raises:
            TypeError: For what is no position.
            RuntimeError: If there is no such input, or while the request is busy.
        """
        index = self._index("get_input_tensor", args, kwargs)
        self._state.check_idle()
        return Tensor.over(self._tensors.input_at(index))

    @overload
    def get_output_tensor(self) -> Tensor: ...
    @overload
    def get_output_tensor(self, index: SupportsIndex) -> Tensor: ...
    def get_output_tensor(self, *args: Any, **kwargs: Any) -> Tensor:
        """Give the tensor of an output, by its position; without one, of the only output.

        Mirrors `openvino.InferRequest.get_output_tensor(index)`. A tensor held here shows what
        later inferences give, shape included.

        Raises:
            TypeError: For what is no position.
            RuntimeError: If there is no such output, or while the request is busy.
        """
        is_plain = len(args) == 1 and type(args[0]) is int and not kwargs
        index = args[0] if is_plain else self._index("get_output_tensor", args, kwargs)
        self._state.check_idle()
        return Tensor.over(self._tensors.output_at(index))

    @overload
    def set_tensor(self, name: str, tensor: Tensor | RemoteTensor) -> None: ...
    @overload
    def set_tensor(self, port: Port, tensor: Tensor | RemoteTensor) -> None: ...
    def set_tensor(self, *args: Any, **kwargs: Any) -> None:
        """Use a tensor for an input or output: its memory is read and written from now on.

        Mirrors `openvino.InferRequest.set_tensor`.

        Args:
            args: A name or the port of an input or output; and the tensor, of the port's element type and of a shape
                that the port takes. It is held, not copied.
            kwargs: The same as `name` or `port`, and `tensor`.

        Raises:
            TypeError: For any other key, or what is no tensor.
            RuntimeError: If there is no such port, if type or shape do not fit, or while the
                request is busy.
        """
        given, tensor = in_order(args, kwargs, ("name", "tensor"), ("port", "tensor")) or (None, None)
        key = self._key("set_tensor", given, args, kwargs)
        known = as_tensor(tensor)
        if known is None:
            signature = "(self: InferRequest, ..., tensor: Tensor)"
            raise incompatible("set_tensor", signature, invoked=(self, *args), keywords=kwargs)
        with self._state.lock:
            self._state.check_idle()
            self._tensors.place(key, known.memory)

    @overload
    def set_input_tensor(self, index: SupportsIndex, tensor: Tensor | RemoteTensor) -> None: ...
    @overload
    def set_input_tensor(self, tensor: Tensor | RemoteTensor) -> None: ...
    def set_input_tensor(self, *args: Any, **kwargs: Any) -> None:
        """Use a tensor for an input, by its position; without one, for the only input.

        Mirrors `openvino.InferRequest.set_input_tensor`.

        Args:
            args: The input's position in the model's order, and the tensor, as in `set_tensor`.
            kwargs: The same as `index` and `tensor`.

        Raises:
            TypeError: For arguments of other types.
            RuntimeError: If there is no such input, if type or shape do not fit, or while the
                request is busy.
        """
        index, memory = self._placement("set_input_tensor", args, kwargs)
        with self._state.lock:
            self._state.check_idle()
            self._tensors.place(index, memory)

    @overload
    def set_output_tensor(self, index: SupportsIndex, tensor: Tensor | RemoteTensor) -> None: ...
    @overload
    def set_output_tensor(self, tensor: Tensor | RemoteTensor) -> None: ...
    def set_output_tensor(self, *args: Any, **kwargs: Any) -> None:
        """Use a tensor for an output: the next inferences write into its memory.

        Mirrors `openvino.InferRequest.set_output_tensor`.

        Differs from OpenVINO: a region of another tensor is written correctly, where openvino's CPU
        device corrupts memory.

        Args:
            args: The output's position in the model's order, and the tensor, as in `set_tensor`.
            kwargs: The same as `index` and `tensor`.

        Raises:
            TypeError: For arguments of other types.
            RuntimeError: If there is no such output, if type or shape do not fit, or while the
                request is busy.
        """
        index, memory = self._placement("set_output_tensor", args, kwargs)
        with self._state.lock:
            self._state.check_idle()
            self._tensors.place_output(index, memory)

    @overload
    def set_tensors(self, inputs: dict[K, T]) -> None: ...
    @overload  # which mypy needs where keys are mixed
    def set_tensors(self, inputs: dict[str | int | Port, T]) -> None: ...  # pyright: ignore[reportOverlappingOverload]
    @overload
    def set_tensors(self, tensor_name: str, tensors: list[T] | TensorVector) -> None: ...
    @overload
    def set_tensors(self, port: Port, tensors: list[T] | TensorVector) -> None: ...
    def set_tensors(self, *args: Any, **kwargs: Any) -> None:
        """Set several tensors, by name, input position or port; or those of one input that make its batch.

        Mirrors `openvino.InferRequest.set_tensors(inputs)` and `(tensor_name | port, tensors)`. The tensors of a batch
        have one item each, and are read anew by every inference.

        Differs from OpenVINO: the first dimension is the batch's, whatever the layout.

        Args:
            args: Tensors as in `set_tensor`, in a dict; or a name or the port of an input, and the items of its batch
                in order, all of one element type and shape, whose first dimension is 1.
            kwargs: The same as `inputs`; or as `tensor_name` or `port`, and `tensors`.

        Raises:
            TypeError: For arguments of other types.
            RuntimeError: As `set_tensor`, for another key, or if the tensors make no batch of the input.
        """
        given = in_order(args, kwargs, ("inputs",), ("tensor_name", "tensors"), ("port", "tensors"))
        if given is not None and len(given) == 1:
            self._place_all("set_tensors", given[0], by_any_key, self._tensors.place)
            return
        given_key, tensors = self._batch("set_tensors", given, (self, *args), kwargs)
        key = self._key("set_tensors", given_key, args, kwargs)
        items = memory_of_items(tensors)
        with self._state.lock:
            self._state.check_idle()
            self._tensors.set_batch(self._input_of_batch(key), items)

    @overload
    def set_input_tensors(self, inputs: dict[int, T]) -> None: ...
    @overload
    def set_input_tensors(self, tensors: list[T] | TensorVector) -> None: ...
    @overload
    def set_input_tensors(self, idx: SupportsIndex, tensors: list[T] | TensorVector) -> None: ...
    def set_input_tensors(self, *args: Any, **kwargs: Any) -> None:
        """Set the tensors of several inputs, by position; or those of one input that make its batch.

        Mirrors `openvino.InferRequest.set_input_tensors(inputs)` and `([idx,] tensors)`.

        Differs from OpenVINO: the first dimension is the batch's, whatever the layout.

        Example:
            >>> request.set_input_tensors([ov.Tensor(first), ov.Tensor(second)])
            >>> request.infer()

        Args:
            args: Tensors as in `set_tensor`, in a dict; or the position of an input, without which it is the only one,
                and the items of its batch, as in `set_tensors`.
            kwargs: The same as `inputs`; or as `idx` and `tensors`.

        Raises:
            TypeError: For arguments of other types.
            RuntimeError: As `set_input_tensor`, for a value that is no tensor, or if they make no batch of the input.
        """
        given = in_order(args, kwargs, ("inputs",), ("tensors",), ("idx", "tensors"))
        if given is not None and len(given) == 1 and isinstance(given[0], dict):
            self._place_all("set_input_tensors", cast("object", given[0]), by_position, self._tensors.place)
            return
        key, tensors = self._batch("set_input_tensors", given, (self, *args), kwargs)
        index = None if key is None else as_size(key)
        if (key is None) != (index is None):
            raise incompatible("set_input_tensors", *_BATCHES, invoked=(self, *args), keywords=kwargs)
        items = memory_of_items(tensors)
        with self._state.lock:
            self._state.check_idle()
            self._tensors.set_batch(self._only_input(index), items)

    def set_output_tensors(self, outputs: dict[int, T]) -> None:
        """Set the tensors of several outputs, by position.

        Mirrors `openvino.InferRequest.set_output_tensors`.

        Args:
            outputs: Tensors as in `set_tensor`, by position in the model's order.

        Raises:
            TypeError: For arguments of other types.
            RuntimeError: As `set_output_tensor`, or for a value that is no tensor.
        """
        self._place_all("set_output_tensors", outputs, by_position, self._tensors.place_output)

    def _place_all(
        self,
        function: str,
        tensors: object,
        read: Callable[[object, object], tuple[K, Memory]],
        place: Callable[[K, Memory], None],
    ) -> None:
        """Read the overload `(dict)`, each of its items by `read`, and place its tensors."""
        if not isinstance(tensors, dict):
            raise incompatible(function, "(self: InferRequest, dict)", invoked=(self, tensors))
        checked = dict(read(key, value) for key, value in cast("dict[object, object]", tensors).items())
        with self._state.lock:
            self._state.check_idle()
            for key, memory in checked.items():
                place(key, memory)

    def _batch(
        self,
        function: str,
        given: tuple[Any, ...] | None,
        invoked: tuple[object, ...],
        keywords: Mapping[str, object],
    ) -> tuple[object, list[object]]:
        """Read the overloads `(key, tensors)` and `(tensors)`."""
        tensors = None if given is None else given[-1]
        if given is None or not (
            is_list(tensors) or isinstance(tensors, TensorVector) or openvino_class(tensors) == "TensorVector"
        ):
            raise incompatible(function, *_BATCHES, invoked=invoked, keywords=keywords)
        return (given[0] if len(given) == 2 else None), cast("list[object]", tensors)

    def _input_of_batch(self, key: str | Port) -> ModelPort:
        ports = self._tensors.ports
        named = (each for each in ports.inputs if key in each.port.names)
        found = next(named, None) if isinstance(key, str) else ports.of(key)
        if found is None or not found.is_input:
            raise RuntimeError(f"set_tensors error. Input port for tensor name {key} was not found.")
        return found

    def _only_input(self, index: int | None) -> ModelPort:
        ports = self._tensors.ports.inputs
        if index is None and len(ports) != 1:
            raise RuntimeError(
                f"set_input_tensors(tensors) must be used for single-input models only. Model has {len(ports)} inputs"
            )
        if index is not None and index >= len(ports):
            raise RuntimeError(
                f"set_input_tensors error. Input port for index {index} is out of bounds. "
                f"Model has only {len(ports)} inputs"
            )
        return ports[index or 0]

    def _key(self, function: str, key: object, args: tuple[object, ...], keywords: Mapping[str, object]) -> str | Port:
        known = key if isinstance(key, str) else as_port(key)
        if known is None:
            signatures = (f"(self: InferRequest, {name}...)" for name in ("name: str", "port: ConstOutput"))
            raise incompatible(function, *signatures, invoked=(self, *args), keywords=keywords)
        return known

    def _index(self, function: str, args: tuple[object, ...], kwargs: dict[str, Any]) -> int | None:
        """Read the overloads `(index)` and `()`."""
        given = in_order(args, kwargs, ("index",)) if kwargs else args
        index = as_size(given[0]) if given is not None and len(given) == 1 else None
        if (args or kwargs) and index is None:
            signatures = ("(self: InferRequest, index: int) -> Tensor", "(self: InferRequest) -> Tensor")
            raise incompatible(function, *signatures, invoked=(self, *args), keywords=kwargs)
        return index

    def _placement(self, function: str, args: tuple[object, ...], kwargs: dict[str, Any]) -> tuple[int | None, Memory]:
        """Read the overloads `(index, tensor)` and `(tensor)`."""
        given = in_order(args, kwargs, ("index", "tensor"), ("tensor",)) or (None,)
        has_index = len(given) == 2
        index, tensor = as_size(given[0]) if has_index else None, as_tensor(given[-1])
        if tensor is None or (has_index and index is None):
            signatures = ("(self: InferRequest, index: int, tensor: Tensor)", "(self: InferRequest, tensor: Tensor)")
            raise incompatible(function, *signatures, invoked=(self, *args), keywords=kwargs)
        return index, tensor.memory
