"""A model that can run on a server: `CompiledModel`.

Owns its interface only; what requests share of it is `remote_model`'s.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, SupportsIndex, cast, overload

from inferwire.arguments import Unpicklable, as_size, in_order, incompatible
from inferwire.graph.ports import ConstOutput, port_named
from inferwire.models.compiled_blobs import check_stream
from inferwire.models.runtime_model import RuntimeModel
from inferwire.property_values import from_contract
from inferwire.requests.infer_request import InferRequest
from inferwire.requests.ov_dict import OVDict
from inferwire.requests.remote_model import RemoteModel
from inferwire.requests.variable_state import VariableState
from inferwire.tab_completion import TabCompleted
from inferwire.user_warnings import shares_inputs

_MISSING: Any = object()


class CompiledModel(TabCompleted, Unpicklable):
    """A model compiled or served by a server. Mirrors `openvino.CompiledModel`.

    Made by `Core.compile_model` and `Core.served_model`, or from another one, as derived classes do; the two then are
    the same model, each with a request of its own for calls. A model compiled for this client is freed on the server
    once neither it nor a request of it is referenced any more.

    Differs from OpenVINO: properties are those the model had when it was compiled.

    Example:
        >>> compiled = core.compile_model("model.xml", "CPU")
        >>> compiled.inputs
        [<ConstOutput: names[data] shape[1,3] type: f32>]
        >>> compiled({"data": np.ones((1, 3), np.float32)})["out"]
        array([[1., 1., 1.]], dtype=float32)

    Args:
        other: The compiled model that this one becomes another object of.
        weights: Not used; what openvino keeps alive with it.

    Raises:
        TypeError: For what is no compiled model.
    """

    _own_use = frozenset({"of"})

    _model: RemoteModel
    _infer_request: InferRequest | None = None

    def __init__(self, other: CompiledModel, weights: object = None) -> None:
        del weights
        if not isinstance(other, CompiledModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise incompatible("__init__", "CompiledModel(other: CompiledModel)", invoked=(other,))
        self._model = other._model

    @classmethod
    def of(cls, model: RemoteModel) -> CompiledModel:
        """Make one of a model on a server; for the SDK's own use, not in openvino."""
        compiled = object.__new__(cls)
        compiled._model = model
        return compiled

    def __repr__(self) -> str:
        return f"<{type(self).__name__}:\n{self._model.ports!r}>"

    @property
    def inputs(self) -> list[ConstOutput]:
        """The inputs in the model's order. Mirrors `openvino.CompiledModel.inputs`."""
        return list(self._model.ports.input_ports)

    @property
    def outputs(self) -> list[ConstOutput]:
        """The outputs in the model's order. Mirrors `openvino.CompiledModel.outputs`."""
        return list(self._model.ports.output_ports)

    @overload
    def input(self, index: SupportsIndex = ...) -> ConstOutput: ...
    @overload
    def input(self, tensor_name: str) -> ConstOutput: ...
    def input(self, *args: Any, **kwargs: Any) -> ConstOutput:
        """Give an input by its position or one of its names; without, the only one.

        Mirrors `openvino.CompiledModel.input(index | tensor_name)`.

        Raises:
            TypeError: For any other key.
            RuntimeError: If there is no such input.
        """
        return self._port("input", self._model.ports.input_ports, args, kwargs)

    @overload
    def output(self, index: SupportsIndex = ...) -> ConstOutput: ...
    @overload
    def output(self, tensor_name: str) -> ConstOutput: ...
    def output(self, *args: Any, **kwargs: Any) -> ConstOutput:
        """Give an output by its position or one of its names; without, the only one.

        Mirrors `openvino.CompiledModel.output(index | tensor_name)`.

        Raises:
            TypeError: For any other key.
            RuntimeError: If there is no such output.
        """
        return self._port("output", self._model.ports.output_ports, args, kwargs)

    def create_infer_request(self) -> InferRequest:
        """Make a request. Mirrors `openvino.CompiledModel.create_infer_request`; no call to the server."""
        return InferRequest.of(self._model, CompiledModel.of)

    def infer_new_request(self, inputs: Any = None) -> OVDict:
        """Run an inference on a request of its own. Mirrors `openvino.CompiledModel.infer_new_request`.

        Raises:
            TypeError: As `InferRequest.infer`.
            RuntimeError: As `InferRequest.infer`.
        """
        # No program gets to use this request again, so its states are fresh and none are kept.
        return InferRequest.of(self._model, CompiledModel.of, keeps_states=False).infer(inputs)

    def __call__(
        self,
        inputs: Any = None,
        share_inputs: bool = True,
        share_outputs: bool = False,
        *,
        decode_strings: bool = True,
        shared_memory: bool | None = None,
    ) -> OVDict:
        """Run an inference on the one request that calls share. Mirrors `openvino.CompiledModel.__call__`.

        Args:
            inputs: As in `InferRequest.infer`.
            share_inputs: As there, but true unless set.
            share_outputs: As there.
            decode_strings: As there.
            shared_memory: What `share_inputs` was until 2023. Deprecated.

        Raises:
            TypeError: As `InferRequest.infer`.
            RuntimeError: As `InferRequest.infer`; "Infer Request is busy" if two threads call at once.
        """
        share = shares_inputs(share_inputs, shared_memory)
        return self._shared_request().infer(inputs, share, share_outputs, decode_strings=decode_strings)

    def get_property(self, property: str) -> Any:  # noqa: A002 - openvino's name
        """Give a property's value as it was when the model was compiled, with openvino's type.

        Mirrors `openvino.CompiledModel.get_property`.

        Differs from OpenVINO: INFERWIRE_MAX_BATCH is how many rows the server runs as one inference, 0
        for no batching; INFERWIRE_MAX_BATCH_DELAY_US and INFERWIRE_PREFERRED_BATCHES are there if
        the model was compiled with them.

        Raises:
            TypeError: For what is no name of a property.
            RuntimeError: If the model has no such property.
        """
        if not isinstance(cast("object", property), str):
            raise incompatible("get_property", "(self: CompiledModel, property: str)", invoked=(self, property))
        properties = self._model.properties
        if property not in properties:
            raise RuntimeError(f"Unsupported property: {property}")
        return from_contract(properties[str(property)])

    @overload
    def set_property(self, properties: Mapping[str, Any]) -> NoReturn: ...
    @overload
    def set_property(self, property: tuple[str, Any]) -> NoReturn: ...
    def set_property(self, *properties: Any, **keywords: Any) -> NoReturn:
        """Refuse: mirrors `openvino.CompiledModel.set_property` of devices as CPU.

        Differs from OpenVINO: a model for BATCH refuses as well.

        Raises:
            TypeError: For arguments that fit no overload.
            RuntimeError: Otherwise; give properties to `Core.compile_model`.
        """
        given = (*properties, *keywords.values())
        if len(given) != 1 or not isinstance(given[0], Mapping | tuple):
            signatures = ("(self: CompiledModel, properties: Mapping)", "(self: CompiledModel, property: tuple)")
            raise incompatible("set_property", *signatures, invoked=(self, *properties), keywords=keywords)
        raise RuntimeError(
            "Not Implemented:\nIt's not possible to set property of an already compiled model. "
            "Set property to Core::compile_model during compilation"
        )

    def release_memory(self) -> None:
        """Do nothing: what the server holds between inferences is shared by its clients.

        Mirrors `openvino.CompiledModel.release_memory`.
        """

    def query_state(self) -> list[VariableState]:
        """Give the states of the request that calls share. Mirrors `openvino.CompiledModel.query_state`.

        Raises:
            RuntimeError: While a call runs.
        """
        return self._shared_request().query_state()

    def reset_state(self) -> None:
        """Reset the states of the request that calls share. Mirrors `openvino.CompiledModel.reset_state`.

        Raises:
            RuntimeError: As `InferRequest.reset_state`.
        """
        self._shared_request().reset_state()

    @overload
    def export_model(self) -> io.BytesIO: ...
    @overload
    def export_model(self, model_stream: io.BytesIO) -> None: ...
    def export_model(self, model_stream: Any = _MISSING) -> io.BytesIO | None:
        """Give the compiled model as a blob for `Core.import_model`, or write it to a stream and rewind that.

        Mirrors `openvino.CompiledModel.export_model`.

        Differs from OpenVINO: a model of the server's repository is exported only if the operator allows it
        (`--allow-exports`).

        Raises:
            TypeError: For a stream that is no BytesIO.
            RuntimeError: If the device cannot export models, or the server does not allow it.
        """
        if model_stream is _MISSING:
            return io.BytesIO(self._model.transport.export(self._model.target))
        stream = check_stream(model_stream)
        stream.write(self._model.transport.export(self._model.target))
        stream.seek(0)
        return None

    def get_runtime_model(self) -> RuntimeModel:
        """Give the graph the device runs, to look at. Mirrors `openvino.CompiledModel.get_runtime_model`.

        Differs from OpenVINO: it is no `Model`: its nodes do not lead to each other. Of a model of the server's
        repository it is given only if the operator allows to export it.

        Raises:
            RuntimeError: If the device has none, or the server does not allow it.
        """
        return RuntimeModel(self._model.transport.runtime_model(self._model.target))

    @property
    def optimal_number_of_infer_requests(self) -> int:
        """How many inferences keep the model's device busy, as OpenVINO finds; not in openvino."""
        return self._model.description.optimal_number_of_infer_requests

    @property
    def max_batch_rows(self) -> int:
        """How many rows of waiting executions the server runs as one inference, 0 if it runs each alone.

        Not in openvino.
        """
        return self._model.description.max_batch_rows

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of a served model's classes, in their order; not in openvino.

        Empty where the operator gave none, and for models that were not served but compiled or imported. The server is
        asked once.

        Example:
            >>> model.labels[model({0: image})[0].argmax()]
            'espresso'

        Raises:
            RuntimeError: If the model is not there any more, or no server answers.
        """
        return self._model.labels()

    def _shared_request(self) -> InferRequest:
        request = self._infer_request
        if request is None:
            # Threads whose first calls come at once share the request that is set first, with its states.
            request = vars(self).setdefault("_infer_request", self.create_infer_request())
        return request

    def _port(
        self, kind: str, ports: Sequence[ConstOutput], args: tuple[object, ...], kwargs: Mapping[str, Any]
    ) -> ConstOutput:
        if not args and not kwargs:
            return _only(kind, ports)
        (key,) = in_order(args, kwargs, ("index",), ("tensor_name",)) or (None,)
        if isinstance(key, str):
            return port_named(kind, ports, key)
        index = as_size(key)
        if index is None:
            signatures = (
                f"(self: CompiledModel{key}) -> ConstOutput" for key in ("", ", index: int", ", tensor_name: str")
            )
            raise incompatible(kind, *signatures, invoked=(self, *args), keywords=kwargs)
        if index >= len(ports):
            raise RuntimeError(f"Cannot get {kind} for index: {index} {kind}s size is {len(ports)}")
        return ports[index]


def _only(kind: str, ports: Sequence[ConstOutput]) -> ConstOutput:
    if len(ports) != 1:
        raise RuntimeError(
            f"CompiledModel::{kind}() must be called on a compiled model with exactly one "
            f"{'parameter' if kind == 'input' else 'result'}."
        )
    return ports[0]
