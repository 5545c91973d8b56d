"""OpenVINO behind the engine's backend. With `openvino_preprocessing`, all of the server that imports openvino.

OpenVINO raises bare RuntimeErrors; here they become errors with a code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import openvino as ov
import structlog

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME, ElementType
from inferwire_proto.errors import Code
from inferwire_proto.properties import EnumValue, Properties, PropertyValue, Scalar
from inferwire_server.core.job import Finish, Finishes
from inferwire_server.core.layers import LayerStatus, LayerTime, RuntimeModel, RuntimeNode
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec, Shape
from inferwire_server.core.states import ReadStates, ResetStates, StateAccess, WriteStates
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import ModelOptions, PluginVersion, Source
from inferwire_server.engine.openvino_preprocessing import build_in
from inferwire_server.engine.screening import refuse_unsafe
from inferwire_server.engine.tokenizers import explained
from inferwire_server.errors import ServingError, invalid_input

log = structlog.stdlib.get_logger()

T = TypeVar("T")

_DEFAULT_PROPERTIES: dict[str, Any] = {"PERFORMANCE_HINT": "THROUGHPUT"}
_MICROSECOND = timedelta(microseconds=1)
_OWN_PARALLELISM = ("PERFORMANCE_HINT", "NUM_STREAMS")


class OpenVinoBackend:
    """The runtime of this process: one `Core` for all models, with libraries of further operations.

    Raises:
        ServingError: INVALID_INPUT for a library that cannot be loaded; the tokenizers' is passed over then.
    """

    def __init__(self, extensions: Sequence[Path] = (), tokenizers: Path | None = None) -> None:
        self._core = ov.Core()
        for library in extensions:
            _add_extension(self._core, library)
        found = () if tokenizers is None else _add_tokenizers(self._core, tokenizers)
        self.extensions = tuple(library.name for library in (*extensions, *found))
        # A weights file that is mapped and then written to in place, as one does before a reload, ends the process.
        self._core.set_property({"ENABLE_MMAP": False})

    def devices(self) -> tuple[str, ...]:
        """List the physical devices."""
        return tuple(self._core.available_devices)

    def read(self, source: Source) -> ModelSpec:
        """Read a model without compiling it."""
        model = _translate(Code.MODEL_FAILED, lambda: _read(self._core, source))
        return _spec(model.friendly_name, model, model)

    def compile(self, source: Source, options: ModelOptions) -> OpenVinoModel:
        """Compile a model, for throughput unless the options say otherwise."""
        return _translate(Code.MODEL_FAILED, lambda: self._compile(source, options))

    def query(self, source: Source, device: str, properties: Properties) -> dict[str, str]:
        """Give the device that would run it for each node that can run."""
        core: Any = self._core
        return _translate(Code.MODEL_FAILED, lambda: core.query_model(_read(core, source), device, _config(properties)))

    def check_properties(self, device: str, properties: Properties) -> Properties:
        """Give properties as a device would take them, or the runtime where `device` is empty; set none."""
        scratch: Any = ov.Core()  # what is set on it ends with it
        where = (device,) if device else ()
        _translate(Code.INVALID_INPUT, lambda: _set_property(scratch, where, _config(properties)))
        return {name: _read_back(scratch, where, name, value) for name, value in properties.items()}

    def device_property(self, device: str, name: str) -> PropertyValue:
        """Read a property of a device, or of the runtime where `device` is empty."""
        arguments = (device, name) if device else (name,)
        return _translate(Code.INVALID_INPUT, lambda: _property_value(self._core.get_property(*arguments)))

    def versions(self, device: str) -> dict[str, PluginVersion]:
        """Read the plugin versions behind a device name; none for an unknown one."""
        found = _translate(Code.INVALID_INPUT, lambda: self._core.get_versions(device))
        return {name: PluginVersion(v.description, v.build_number) for name, v in found.items()}

    def _compile(self, source: Source, options: ModelOptions) -> OpenVinoModel:
        config = _config(options.properties)
        if not any(name in config for name in _OWN_PARALLELISM):
            config |= _DEFAULT_PROPERTIES
        if source.is_compiled:
            core: Any = self._core
            imported = core.import_model(source.path.read_bytes(), options.device, config)
            return OpenVinoModel(imported, _imported_spec(options.name, imported))
        model = _read(self._core, source)
        refuse_unsafe(model)
        # Compiling invents names for ports that have none, so the names are read before.
        names = [port.get_names() for port in (*model.inputs, *model.outputs)]
        compiled = self._core.compile_model(model, options.device, config)
        spec = _spec(options.name or model.friendly_name, compiled, model, names)
        return OpenVinoModel(compiled, replace(spec, rt_info=_texts(model.get_rt_info())))


class OpenVinoModel:
    """A compiled model."""

    def __init__(self, compiled: ov.CompiledModel, spec: ModelSpec) -> None:
        self._compiled = compiled
        self.spec = spec
        self.devices = tuple(_plain_device(device) for device in compiled.get_property("EXECUTION_DEVICES"))
        self.optimal_slots = int(compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
        self.properties = _readable_properties(compiled)

    def create_slot(self, *, keeps_states: bool = False) -> OpenVinoSlot:
        """Make a slot. Unless it keeps the model's states, every inference in it starts from fresh ones."""
        request = _translate(Code.MODEL_FAILED, self._compiled.create_infer_request)
        return OpenVinoSlot(request, self.spec, resets_states=bool(self.spec.states) and not keeps_states)

    def layers(self) -> tuple[LayerTime, ...]:
        """List its layers, none of which has run."""
        return _translate(Code.MODEL_FAILED, lambda: _layer_times(self._compiled.create_infer_request()))

    def runtime_model(self) -> RuntimeModel:
        """Describe the graph that its device runs."""
        return _translate(Code.MODEL_FAILED, lambda: _runtime_model(self._compiled.get_runtime_model()))

    def export(self) -> bytes:
        """Give it as a blob that can be loaded again."""
        return _translate(Code.MODEL_FAILED, lambda: self._compiled.export_model().getvalue())


class OpenVinoSlot:
    """One `InferRequest`, reused.

    The request reads its inputs where the caller's bytes lie and does not keep them alive: the
    caller holds them until `run` returns, and before that the request gets its own tensors back.
    """

    def __init__(self, request: ov.InferRequest, spec: ModelSpec, *, resets_states: bool) -> None:
        self._request = request
        self._spec = spec
        self._resets_states = resets_states
        self._own_inputs = [_own_input(request, index) for index in range(len(spec.inputs))]

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[int], finishes: Finishes = ()) -> tuple[Tensor, ...]:
        """Run an inference and give copies of the outputs asked for, or what their finishes make of them."""
        return _translate(Code.INFERENCE_FAILED, lambda: self._run(inputs, outputs, finishes))

    def access(self, states: StateAccess) -> tuple[Tensor, ...]:
        """Read, write or reset states, and give copies of what was read."""
        return _translate(Code.INVALID_INPUT, lambda: self._access(states))

    def cancel(self) -> None:
        """Stop the inference that runs, if the device can."""
        self._request.cancel()

    def profile(self) -> tuple[LayerTime, ...]:
        """Give what each layer took in the last run."""
        return _translate(Code.INFERENCE_FAILED, lambda: _layer_times(self._request))

    def _access(self, states: StateAccess) -> tuple[Tensor, ...]:
        variables = {variable.name: variable for variable in self._request.query_state()}
        match states:
            case ReadStates(names):
                return tuple(_state(_named(variables, name)) for name in names or variables)
            case WriteStates(values):
                for name, tensor in values:
                    _named(variables, name).state = to_runtime(tensor)
            case ResetStates(names):
                for name in names or variables:
                    _named(variables, name).reset()
        return ()

    def _run(self, inputs: Sequence[Tensor], outputs: Sequence[int], finishes: Finishes) -> tuple[Tensor, ...]:
        request = self._request
        views = [to_runtime(tensor) for tensor in inputs]
        try:
            for index, view in enumerate(views):
                request.set_input_tensor(index, view)
            if self._resets_states:
                # The slot has served other callers: nobody may see what they left behind.
                request.reset_state()
            # A completion callback would miss failures and cancels; wait() sees them all.
            request.start_async()
            request.wait()
            finishing = finishes or [None] * len(outputs)
            return tuple(self._finished(index, finish) for index, finish in zip(outputs, finishing, strict=True))
        finally:
            for index, own in enumerate(self._own_inputs):
                request.set_input_tensor(index, own)

    def _finished(self, index: int, finish: Finish | None) -> Tensor:
        tensor, element_type = self._request.get_output_tensor(index), self._spec.outputs[index].element_type
        return from_runtime(tensor, element_type) if finish is None else finish(_view(tensor, element_type))


def _named(variables: Mapping[str, Any], name: str) -> Any:
    if name not in variables:
        raise invalid_input(f"the model has no state '{name}', expected one of {', '.join(variables)}")
    return variables[name]


def _state(variable: Any) -> Tensor:
    tensor = variable.state
    return from_runtime(tensor, BY_NAME[tensor.element_type.get_type_name()])


def _own_input(request: ov.InferRequest, index: int) -> ov.Tensor:
    """Give a tensor that an input can always be set back to: OpenVINO's first one of a bounded shape does not fit."""
    port = request.model_inputs[index]
    if port.partial_shape.is_static:
        return request.get_input_tensor(index)
    return ov.Tensor(port.element_type, port.partial_shape.get_min_shape())


def _layer_times(request: ov.InferRequest) -> tuple[LayerTime, ...]:
    return tuple(
        LayerTime(
            row.node_name,
            row.node_type,
            row.exec_type,
            LayerStatus[row.status.name],
            row.real_time // _MICROSECOND,
            row.cpu_time // _MICROSECOND,
        )
        for row in request.get_profiling_info()
    )


def _runtime_model(graph: ov.Model) -> RuntimeModel:
    return RuntimeModel(
        _spec(graph.friendly_name, graph, graph), tuple(_runtime_node(node) for node in graph.get_ordered_ops())
    )


def _runtime_node(node: Any) -> RuntimeNode:
    outputs = node.outputs()
    return RuntimeNode(
        node.get_friendly_name(),
        node.get_type_name(),
        {name: str(value.value) for name, value in node.get_rt_info().items()},
        node.get_input_size(),
        _ports(outputs, [set[str]()] * len(outputs), "output"),
    )


def to_runtime(tensor: Tensor) -> ov.Tensor:
    """View a tensor's bytes as OpenVINO's, copying only strings and misaligned bytes."""
    runtime_type = getattr(ov.Type, tensor.element_type.name)
    shape = list(tensor.shape)
    if tensor.element_type.is_string:
        filled = ov.Tensor(runtime_type, ov.Shape(shape))
        if filled.size:
            filled.bytes_data = _nested(strings.unpack(tensor.data, filled.size), shape)
        return filled
    storage = tensor.element_type.storage_dtype
    if not tensor.byte_size:
        return ov.Tensor(runtime_type, ov.Shape(shape))
    array = np.frombuffer(tensor.data, storage)
    if not array.flags.aligned:
        array = array.copy()
    if not tensor.element_type.is_packed:
        array = array.reshape(shape)
    return ov.Tensor(array, ov.Shape(shape), runtime_type)


def from_runtime(tensor: ov.Tensor, element_type: ElementType) -> Tensor:
    """Copy a tensor's bytes out of OpenVINO's memory."""
    if element_type.is_string:
        # Reading no strings at all divides by zero in OpenVINO, which ends the process.
        data = strings.pack(bytes(string) for string in tensor.bytes_data.reshape(-1)) if tensor.size else b""
        return Tensor(element_type, tuple(tensor.shape), data)
    array = tensor.data
    # numpy knows the shape far sooner than OpenVINO's Shape gives its items; packed types are flat there.
    shape = tuple(tensor.shape) if element_type.is_packed else array.shape
    return Tensor(element_type, shape, array.tobytes())


def _view(tensor: ov.Tensor, element_type: ElementType) -> Tensor:
    """Show a tensor's bytes in OpenVINO's memory, where the next inference writes over them. Strings are copied."""
    if element_type.is_string:
        return from_runtime(tensor, element_type)
    return Tensor(element_type, tuple(tensor.shape), tensor.data.reshape(-1).view(np.uint8).data.toreadonly())


def _nested(values: list[bytes], shape: Sequence[int]) -> np.ndarray[Any, np.dtype[np.bytes_]]:
    return np.array(values, dtype=np.bytes_).reshape(shape)


def _translate(code: Code, call: Callable[[], T]) -> T:
    """Make OpenVINO's errors the server's."""
    try:
        return call()
    except (RuntimeError, ValueError, TypeError) as error:
        text = str(error).strip()
        if code is Code.INFERENCE_FAILED and "was canceled" in text:
            raise ServingError(Code.CANCELLED, "the inference was cancelled") from error
        raise ServingError(code, explained(text)) from error


def _read(core: Any, source: Source) -> ov.Model:
    model: ov.Model = core.read_model(source.path, source.weights)
    if source.free:
        _set_free(model, source.free)
    _reshape(model, source.reshape)
    if source.batch is not None:
        _set_batch(model, source.batch)
    for preprocessing in source.preprocessing:
        model = build_in(model, preprocessing)
        _reshape(model, preprocessing.reshape)
    return model


def _reshape(model: ov.Model, shapes: Mapping[str, Shape]) -> None:
    if "" in shapes:
        model.reshape(_partial_shape(shapes[""]))
    elif shapes:
        model.reshape({name: _partial_shape(shape) for name, shape in shapes.items()})


def _set_free(model: ov.Model, names: frozenset[str]) -> None:
    """Let inputs take every length in each of their dimensions: those of these names, or all for an empty one."""
    known = {name: port for port in model.inputs for name in port.get_names()}
    unknown = sorted(names - known.keys() - {""})
    if unknown:
        raise ValueError(f"there is no input '{unknown[0]}', expected one of {', '.join(sorted(known)) or 'none'}")
    ports = model.inputs if "" in names else [known[name] for name in names]
    ranked = [port for port in ports if port.get_partial_shape().rank.is_static]
    model.reshape({port: ov.PartialShape([-1] * len(port.get_partial_shape())) for port in ranked})


def _set_batch(model: ov.Model, batch: Dimension) -> None:
    """Set the batch dimension of every input: the one its layout names, else the first."""
    shapes: dict[Any, ov.PartialShape] = {}
    for port in model.inputs:
        shape = port.get_partial_shape()
        if shape.rank.is_dynamic or not len(shape):
            raise ValueError(f"input '{port.get_node().get_friendly_name()}' has shape {shape}: no batch can be set")
        layout = ov.layout_helpers.get_layout(port)
        at = ov.layout_helpers.batch_idx(layout) if ov.layout_helpers.has_batch(layout) else 0
        shape[at] = ov.Dimension(batch.min, -1 if batch.max is None else batch.max)
        shapes[port] = shape
    model.reshape(shapes)


def _spec(
    name: str,
    ports: ov.Model | ov.CompiledModel,
    model: ov.Model,
    names: Sequence[set[str]] | None = None,
) -> ModelSpec:
    if names is None:
        names = [port.get_names() for port in (*ports.inputs, *ports.outputs)]
    count = len(ports.inputs)
    return ModelSpec(
        name,
        _ports(ports.inputs, names[:count], "input"),
        _ports(ports.outputs, names[count:], "output"),
        tuple(variable.info.variable_id for variable in model.get_variables()),
    )


def _texts(info: Mapping[str, Any]) -> dict[str, Any]:
    """Give what a model says of itself as texts, or tables of them; not what the runtime has noted of this host."""
    return {
        name: _texts(cast("dict[str, Any]", below)) if isinstance(below, dict) else _text(below)
        for name, below in info.items()
        if not name.startswith("__")
    }


def _text(value: Any) -> str:
    """Write a value as OpenVINO does in a model's file."""
    plain = value.value if isinstance(value, ov.OVAny) else value
    match plain:
        case bool():
            return "YES" if plain else "NO"
        case list() | tuple():
            return " ".join(map(_text, cast("Sequence[Any]", plain)))
        case _:
            return str(plain)


def _imported_spec(name: str, compiled: ov.CompiledModel) -> ModelSpec:
    """Describe a model of which there is no source: its states are known to its requests alone."""
    return ModelSpec(
        name or compiled.get_property("NETWORK_NAME"),
        _ports(compiled.inputs, [port.get_names() for port in compiled.inputs], "input"),
        _ports(compiled.outputs, [port.get_names() for port in compiled.outputs], "output"),
        tuple(state.name for state in compiled.create_infer_request().query_state()),
    )


def _ports(ports: Sequence[Any], names: Sequence[set[str]], kind: str) -> tuple[PortSpec, ...]:
    """Describe ports. The protocol's name is the smallest of a port's own, unless another has it too."""
    smallest = [min(own, default="") for own in names]
    return tuple(
        PortSpec(
            names=frozenset(port.get_names()),
            oip_name=name if name and smallest.count(name) == 1 else _free_name(f"{kind}_{index}", smallest),
            element_type=_element_type(port, f"{kind} {index}"),
            shape=_shape(port.get_partial_shape()),
            node_name=port.get_node().get_friendly_name(),
            node_type=port.get_node().get_type_name(),
        )
        for index, (port, name) in enumerate(zip(ports, smallest, strict=True))
    )


def _free_name(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _element_type(port: Any, what: str) -> ElementType:
    name = port.get_element_type().get_type_name()
    if name not in BY_NAME:
        raise ServingError(Code.MODEL_FAILED, f"{what} has element type {name}, expected a known one")
    return BY_NAME[name]


def _shape(shape: ov.PartialShape) -> Shape:
    if shape.rank.is_dynamic:
        return None
    return tuple(Dimension(d.get_min_length(), None if d.get_max_length() == -1 else d.get_max_length()) for d in shape)


def _partial_shape(shape: Shape) -> ov.PartialShape:
    if shape is None:
        return ov.PartialShape.dynamic()
    return ov.PartialShape([ov.Dimension(d.min, -1 if d.max is None else d.max) for d in shape])


def _readable_properties(compiled: ov.CompiledModel) -> Properties:
    """Read a model's properties; those that cannot be read are left out."""
    values: dict[str, PropertyValue] = {}
    for name in compiled.get_property("SUPPORTED_PROPERTIES"):
        try:
            values[name] = _property_value(compiled.get_property(name))
        except RuntimeError:
            continue
    return values


def _plain_device(name: str) -> str:
    """Give the physical device behind what a virtual one says it runs on: "(CPU)" is CPU."""
    return name.strip("()")


def _property_value(value: Any) -> PropertyValue:
    """Make a property's value one that travels."""
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {str(key): _property_value(item) for key, item in pairs}
    if isinstance(value, list | tuple | set | frozenset):
        items = cast("Collection[Any]", value)
        if isinstance(value, list):
            return [_property_value(item) for item in items]
        if isinstance(value, tuple):
            return tuple(_property_value(item) for item in items)
        return {_scalar(item) for item in items}
    return _scalar(value)


def _scalar(value: Any) -> Scalar:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, ov.Type):
        return BY_NAME.get(value.get_type_name(), value.get_type_name())
    kind = cast("type[Any]", type(value))
    if hasattr(kind, "__members__"):
        module = kind.__module__.rpartition("properties")[2]
        return EnumValue(f"{module}.{kind.__name__}".lstrip("."), value.name)
    return str(value)


def _config(properties: Properties) -> dict[str, Any]:
    return {name: _runtime_value(value) for name, value in properties.items()}


def _set_property(core: Any, where: tuple[str, ...], config: dict[str, Any]) -> None:
    for device in where:
        core.get_versions(device)  # loads its plugin: until then anything would be taken
    core.set_property(*where, config)


def _read_back(core: Any, where: tuple[str, ...], name: str, value: PropertyValue) -> PropertyValue:
    """Read what was set; some of what can be set cannot be read."""
    try:
        return _property_value(core.get_property(*where, name))
    except RuntimeError:
        return value


def _add_extension(core: Any, library: Path) -> None:
    try:
        core.add_extension(library)
    except RuntimeError as error:
        reason = str(error).strip().rpartition("This error happened: ")[2]
        raise ServingError(Code.INVALID_INPUT, f"--extension '{library}' cannot be loaded: {reason}") from error


def _add_tokenizers(core: Any, library: Path) -> tuple[Path, ...]:
    """Load what nobody asked for by name: where that fails, models without text are served all the same."""
    try:
        core.add_extension(library)
    except RuntimeError as error:
        log.warning("the tokenizers are of no use", library=str(library), reason=str(error).strip())
        return ()
    return (library,)


def _runtime_value(value: PropertyValue) -> Any:
    """Give a property's value as OpenVINO reads it: it takes types and enumerations by name."""
    match value:
        case ElementType() | EnumValue():
            return value.name
        case list() | tuple() | set():
            return [_runtime_value(item) for item in value]
        case dict():
            return {name: _runtime_value(item) for name, item in value.items()}
        case _:
            return value
