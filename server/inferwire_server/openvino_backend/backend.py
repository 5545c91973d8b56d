"""The runtime of a process, and the models that it compiles."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import openvino as ov
import structlog

from inferwire_proto.errors import Code
from inferwire_proto.preprocessing import Recording
from inferwire_proto.properties import Properties, PropertyValue
from inferwire_server.core.layers import LayerTime, ModelGraph
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.specs import ModelSpec
from inferwire_server.engine.backend import PluginVersion
from inferwire_server.errors import ServingError, UnfitSetting
from inferwire_server.openvino_backend.attention_states import pairs_of
from inferwire_server.openvino_backend.bound_slots import OpenVinoBoundSlot
from inferwire_server.openvino_backend.brief import compile_brief
from inferwire_server.openvino_backend.brief_slots import OpenVinoBriefSlot
from inferwire_server.openvino_backend.compile_cache import alone_in, kept_in
from inferwire_server.openvino_backend.device_check import check_device, check_each_property
from inferwire_server.openvino_backend.empty_inputs import EmptyInputs
from inferwire_server.openvino_backend.errors import translate
from inferwire_server.openvino_backend.graphs import Graphs
from inferwire_server.openvino_backend.layers import graph_of, layer_times, runtime_graph_of
from inferwire_server.openvino_backend.preprocessing import describe
from inferwire_server.openvino_backend.properties import (
    chooses_device,
    config_of,
    execution_devices,
    property_value,
    read_back,
    readable_properties,
    set_property,
    without_bound_buffers,
)
from inferwire_server.openvino_backend.screening.states import refuse_narrow_states
from inferwire_server.openvino_backend.slots import OpenVinoSlot
from inferwire_server.openvino_backend.sources import read_model, read_to_run, renewal
from inferwire_server.openvino_backend.specs import compiled_states_of, imported_spec, read_spec, spec_of, texts
from inferwire_server.openvino_backend.text_inputs import text_inputs_of

log = structlog.stdlib.get_logger()

AUTO = "AUTO"
"""The device that chooses among those that there are."""

_DEFAULT_PROPERTIES: dict[str, Any] = {"PERFORMANCE_HINT": "THROUGHPUT"}

SPARE_SLOTS = 2
"""Slots beyond the inferences that OpenVINO computes at once. OpenVINO's own queue starts the next one sooner than the
server's can, and two may end before the server has replaced the first of them."""

_OWN_PARALLELISM = ("PERFORMANCE_HINT", "NUM_STREAMS")

_NO_EXPORT = "Not Implemented"
"""What AUTO, MULTI and BATCH say in place of exporting."""


class OpenVinoBackend:
    """The runtime of this process: one `Core` for all models, with libraries of further operations.

    Args:
        extensions: Libraries of further operations.
        tokenizers: The library of OpenVINO's tokenizers, if it is there.
        threads: How many of the CPU's threads compute, unless a model's properties say otherwise; None for as many as
            there are cores.

    Raises:
        ServingError: INVALID_INPUT for an extension that cannot be loaded. Tokenizers that cannot be are passed over.
    """

    def __init__(
        self, extensions: Sequence[Path] = (), tokenizers: Path | None = None, threads: int | None = None
    ) -> None:
        # OpenVINO's Python imports numpy in the midst of what it does once, and other threads run meanwhile. One that
        # comes there too would wait with Python's lock held, and all would stand still: this is before there are any.
        ov.Type.f32.to_dtype()
        self._core = ov.Core()
        for library in extensions:
            _add_extension(self._core, library)
        found = () if tokenizers is None else _add_tokenizers(self._core, tokenizers)
        self.version = ov.get_version()
        self.extensions = tuple(library.name for library in (*extensions, *found))
        # If an operator overwrites a mapped weights file in place, as before a reload, that ends the process.
        self._core.set_property({"ENABLE_MMAP": False})
        if threads is not None and "CPU" in self._core.available_devices:
            # Pinned threads would share their cores with those that another container on the machine has pinned.
            self._core.set_property("CPU", {"INFERENCE_NUM_THREADS": threads, "ENABLE_CPU_PINNING": False})

    def devices(self) -> tuple[str, ...]:
        """List the physical devices."""
        return tuple(self._core.available_devices)

    def read(self, source: Source) -> ModelSpec:
        """Read a model without compiling it."""
        return translate(Code.MODEL_FAILED, lambda: read_spec(read_model(self._core, source)))

    def graph(self, source: Source) -> ModelGraph:
        """Describe the graph of a model without compiling it."""
        return translate(Code.MODEL_FAILED, lambda: graph_of(read_model(self._core, source)))

    def describe_preprocessing(self, source: Source, recording: Recording) -> str:
        """Say in OpenVINO's words what is recorded on a processor of a model."""
        return translate(Code.MODEL_FAILED, lambda: describe(read_model(self._core, source), recording))

    def compile(self, source: Source, options: ModelOptions) -> OpenVinoModel:
        """Compile a model, for throughput unless the options say otherwise.

        Raises:
            ServingError: MODEL_FAILED with OpenVINO's reason; UnfitSetting where it is one of the operator's settings.
        """
        try:
            return translate(Code.MODEL_FAILED, lambda: self._compile(source, options))
        except ServingError as error:
            if source.by_settings and not isinstance(error, UnfitSetting):
                check_device(self._core, options.device)
                check_each_property(self._device_for(source, options), config_of(options.properties), error.message)
            raise

    def query(self, source: Source, device: str, properties: Properties) -> dict[str, str]:
        """Give the device that would run it for each node that can run."""
        core: Any = self._core
        return translate(
            Code.MODEL_FAILED, lambda: core.query_model(read_model(core, source), device, config_of(properties))
        )

    def check_properties(self, device: str, properties: Properties) -> Properties:
        """Give properties as a device would take them, or the runtime where `device` is empty; set none."""
        scratch: Any = ov.Core()  # what is set on it ends with it
        where = (device,) if device else ()
        translate(Code.INVALID_INPUT, lambda: set_property(scratch, where, config_of(properties)))
        return {name: read_back(scratch, where, name, value) for name, value in properties.items()}

    def device_property(self, device: str, name: str) -> PropertyValue:
        """Read a property of a device, or of the runtime where `device` is empty."""
        arguments = (device, name) if device else (name,)
        return translate(Code.INVALID_INPUT, lambda: property_value(self._core.get_property(*arguments)))

    def versions(self, device: str) -> dict[str, PluginVersion]:
        """Read the plugin versions behind a device name; none for an unknown one."""
        found = translate(Code.INVALID_INPUT, lambda: self._core.get_versions(device))
        return {name: PluginVersion(v.description, v.build_number) for name, v in found.items()}

    def _device_for(self, source: Source, options: ModelOptions) -> str:
        """Give the device to compile for. If settings leave the choice to AUTO and there is only one, give that one.

        AUTO cannot stop an inference that has begun, exports nothing, and takes any property. A client that asks for
        AUTO still gets it, and so reads back what openvino says of it.
        """
        devices = self.devices()
        if options.device != AUTO or not source.by_settings or len(devices) != 1:
            return options.device
        (only,) = devices
        return AUTO if chooses_device(self._core, only, options.properties) else only

    def _compile(self, source: Source, options: ModelOptions) -> OpenVinoModel:
        device = self._device_for(source, options)
        config = without_bound_buffers(config_of(options.properties))
        if not any(name in config for name in _OWN_PARALLELISM):
            config |= _DEFAULT_PROPERTIES
        if source.is_compiled:
            core: Any = self._core
            imported = core.import_model(source.path.read_bytes(), device, config)
            graphs = Graphs(imported, renewal(self._core, source, device, config))
            return OpenVinoModel(graphs, imported_spec(options.name, imported))
        again = renewal(self._core, source, device, config)
        model = read_to_run(self._core, source)
        refuse_narrow_states(model, config)
        # Compiling invents names for ports that have none, so the names are read before.
        names = [port.get_names() for port in (*model.inputs, *model.outputs)]
        empty_inputs = EmptyInputs.of(model)
        cache = config.get("CACHE_DIR")
        with alone_in(Path(cache)) if cache else nullcontext(False) as is_cache_of_use:
            if not is_cache_of_use:
                config.pop("CACHE_DIR", None)
            compile_it = partial(self._core.compile_model, model, device, config)
            compiled = kept_in(Path(cache), options.name, compile_it) if cache and is_cache_of_use else compile_it()
            brief = None
            if not options.pictures:
                brief = compile_brief(self._core, source, model, compiled, config, empty_inputs)
        # Listing states takes a request, which takes memory if the model is large: none is made where there are none.
        states = compiled_states_of(compiled) if model.get_variables() else ()
        spec = spec_of(options.name or model.friendly_name, compiled, states, names)
        graphs = Graphs(compiled, again, empty_inputs, pairs_of(model) if states else (), text_inputs_of(model))
        spec = replace(spec, rt_info=texts(model.get_rt_info()))
        return OpenVinoModel(graphs, spec, brief, device if source.by_settings else "")


class OpenVinoModel:
    """A compiled model. `device_as_set` is the device that it was compiled for if the operator's settings say that."""

    def __init__(self, graphs: Graphs, spec: ModelSpec, brief: Graphs | None = None, device_as_set: str = "") -> None:
        compiled = graphs.compiled
        self._graphs = graphs
        self._brief = brief
        self._device_as_set = device_as_set
        self.spec = spec
        self.devices = execution_devices(compiled)
        self.optimal_requests = int(compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
        self.optimal_slots = self.optimal_requests + SPARE_SLOTS
        self.properties = readable_properties(compiled)

    def create_slot(self, *, keeps_states: bool = False) -> OpenVinoSlot:
        """Make a slot. Unless it keeps the model's states, every inference in it starts from fresh ones."""
        make = OpenVinoBoundSlot if keeps_states and self.spec.states else OpenVinoSlot
        return translate(Code.MODEL_FAILED, lambda: make(self._graphs, self.spec))

    def create_brief_slot(self) -> OpenVinoBriefSlot | None:
        """Make a slot that computes on the thread that calls it and no other; None where no inference can be brief."""
        brief = self._brief
        return None if brief is None else translate(Code.MODEL_FAILED, lambda: OpenVinoBriefSlot(brief, self.spec))

    def layers(self) -> tuple[LayerTime, ...]:
        """List its layers, none of which has run."""
        return translate(Code.MODEL_FAILED, lambda: layer_times(self._graphs.compiled.create_infer_request()))

    def runtime_model(self) -> ModelGraph:
        """Describe the graph that its device runs."""
        return translate(Code.MODEL_FAILED, lambda: runtime_graph_of(self._graphs.compiled))

    def export(self) -> bytes:
        """Give it as a blob that can be loaded again."""
        try:
            return translate(Code.MODEL_FAILED, self._graphs.export)
        except ServingError as error:
            if not (self._device_as_set and _NO_EXPORT in error.message):
                raise
            one = self.devices[0]
            raise ServingError(
                Code.MODEL_FAILED,
                f"model '{self.spec.name}' was compiled for {self._device_as_set}, which cannot export; set device = "
                f'"{one}" in its inferwire.toml, or start the server with --device {one}',
            ) from error


def _add_extension(core: Any, library: Path) -> None:
    # The system's loader would wait until the pipe has a writer, and no signal could end the process meanwhile.
    if library.is_fifo():
        raise ServingError(Code.INVALID_INPUT, f"--extension '{library}' cannot be loaded: it is a pipe")
    try:
        core.add_extension(library)
    except RuntimeError as error:
        reason = str(error).strip().rpartition("This error happened: ")[2]
        raise ServingError(Code.INVALID_INPUT, f"--extension '{library}' cannot be loaded: {reason}") from error


def _add_tokenizers(core: Any, library: Path) -> tuple[Path, ...]:
    """Load the tokenizers' library. No flag names it: if it cannot be loaded, models without text are still served."""
    try:
        core.add_extension(library)
    except RuntimeError as error:
        log.warning("the tokenizers are of no use", library=str(library), reason=str(error).strip())
        return ()
    return (library,)
