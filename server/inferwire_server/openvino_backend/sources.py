"""Reads models from their files, and says how to compile a model once more, also if its files have changed by then."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any, TypeAlias

import openvino as ov

from inferwire_proto.errors import Code
from inferwire_proto.model_formats import WEIGHTS_SUFFIXES
from inferwire_proto.port_names import PortNames
from inferwire_server.core.model_options import Preprocessing, Source
from inferwire_server.core.specs import Dimension, ModelSpec, Shape
from inferwire_server.core.stated_ports import StatedPorts
from inferwire_server.errors import ServingError, UnfitSetting
from inferwire_server.openvino_backend.added_outputs import add_outputs
from inferwire_server.openvino_backend.errors import OPENVINO_ERRORS
from inferwire_server.openvino_backend.preprocessing import build_in
from inferwire_server.openvino_backend.screening.screen import screen
from inferwire_server.openvino_backend.specs import check_inputs, partial_shape, spec_of, states_of

Renew: TypeAlias = Callable[[ov.CompiledModel], ov.CompiledModel]
"""Makes another compiled model like the one it is given."""


def renewal(core: Any, source: Source, device: str, config: Mapping[str, Any]) -> Renew:
    """Say how to compile a model once more: from its files or, if these have changed, from what is in memory.

    That blob is kept: OpenVINO cannot import what a model exports that was itself imported from such a blob, or that
    came from its cache.
    """
    as_read = frozenset(_stamps(source))
    # Without the cache: this is not to wait for others that compile into it.
    own = {name: value for name, value in config.items() if name != "CACHE_DIR"}
    blob = b""

    def renew(compiled: ov.CompiledModel) -> ov.CompiledModel:
        nonlocal blob
        if source.is_compiled or frozenset(_stamps(source)) != as_read:
            given = blob or compiled.export_model().getvalue()
            made = core.import_model(given, device, own)
            blob = given
            return made
        return core.compile_model(read_to_run(core, source), device, own)

    return renew


def read_model(core: Any, source: Source) -> ov.Model:
    """Read a model, and change it as its source says.

    Raises:
        UnfitSetting: For a setting of the operator's that does not fit it.
        ServingError: MODEL_FAILED if its inputs, outputs or states are not what they are said to be.
    """
    model: ov.Model = core.read_model(source.path)
    if source.by_settings:
        check_inputs(model, (*source.free, *source.reshape), lambda name: ("shapes", name))
    with _blaming("shapes") if source.by_settings else nullcontext():
        if source.free:
            _set_free(model, source.free)
        _reshape(model, source.reshape)
    if source.stated is not None:
        _fit(model, source.stated)
    if source.batch is not None:
        with _blaming("batch"):
            _set_batch(model, source.batch)
    for preprocessing in source.preprocessing:
        if preprocessing.calls:
            model = build_in(model, preprocessing)
        add_outputs(model, preprocessing.added_outputs)
        _set_names(model, preprocessing.names)
        _reshape_further(model, preprocessing)
    return model


def read_to_run(core: Any, source: Source) -> ov.Model:
    """Read a model to compile it, changed so that it stays within its memory as it runs, and its callers apart.

    Raises:
        ValueError: For a model that would not.
    """
    model = read_model(core, source)
    screen(model)
    return model


def _set_names(model: ov.Model, named: Sequence[PortNames]) -> None:
    for each in named:
        ports = model.outputs if each.is_output else model.inputs
        if each.index >= len(ports):
            kind = "output" if each.is_output else "input"
            raise ValueError(f"{kind} {each.index} is named, and the model has {len(ports)}")
        ports[each.index].get_tensor().set_names(set(each.names))


@contextmanager
def _blaming(setting: str) -> Generator[None]:
    """Turn OpenVINO's errors into one that names the setting which asks for what OpenVINO refuses."""
    try:
        yield
    except OPENVINO_ERRORS as error:
        raise UnfitSetting([setting], str(error).strip()) from error


def _reshape(model: ov.Model, shapes: Mapping[str, Shape]) -> None:
    if "" in shapes:
        model.reshape(partial_shape(shapes[""]))
    elif shapes:
        model.reshape({name: partial_shape(shape) for name, shape in shapes.items()})


def _reshape_further(model: ov.Model, preprocessing: Preprocessing) -> None:
    """Give inputs their new shapes in one call: the model may not fit some of them without the others."""
    positions = preprocessing.reshape_positions
    past = [position for position in positions if position >= len(model.inputs)]
    if past:
        raise ValueError(f"input {past[0]} is given a shape, and the model has {len(model.inputs)}")
    shapes: dict[Any, Shape] = {**preprocessing.reshape, **positions}
    if shapes:
        model.reshape({key: partial_shape(shape) for key, shape in shapes.items()})


def _set_free(model: ov.Model, names: frozenset[str]) -> None:
    """Let inputs take every length in each of their dimensions: those of these names, or all for an empty one."""
    known = {name: port for port in model.inputs for name in port.get_names()}
    ports = model.inputs if "" in names else [known[name] for name in names]
    ranked = [port for port in ports if port.get_partial_shape().rank.is_static]
    model.reshape({port: ov.PartialShape([-1] * len(port.get_partial_shape())) for port in ranked})


def _fit(model: ov.Model, stated: StatedPorts) -> None:
    """Narrow inputs to what is stated where the model leaves that open, lay out those it does not, check the rest."""
    ports = _ports(model)
    shapes = stated.input_shapes(ports.inputs)
    if shapes:
        try:
            model.reshape({model.inputs[position]: partial_shape(shape) for position, shape in shapes.items()})
        except OPENVINO_ERRORS as error:
            raise ServingError(Code.MODEL_FAILED, f"{stated.source}: dims: {str(error).strip()}") from error
    ports = _ports(model)
    for position, layout in stated.input_layouts(ports.inputs).items():
        ov.layout_helpers.set_layout(model.inputs[position], ov.Layout(layout))
    stated.check_outputs(ports.outputs)
    stated.check_states(states_of(model))


def _ports(model: ov.Model) -> ModelSpec:
    return spec_of(model.friendly_name, model, ())


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


def _stamps(source: Source) -> Iterator[tuple[Path, tuple[int, ...]]]:
    """Give what tells a model's files from others of their names. Of a file's times, `ctime` is one that cannot be set.

    Files that cannot be looked at are left out: they have gone since, or lie beside the model and are not for this
    user.
    """
    with suppress(OSError):
        for file in _files(source):
            with suppress(OSError):
                status = file.stat()
                if S_ISREG(status.st_mode):
                    yield file, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _files(source: Source) -> Iterator[Path]:
    yield source.path
    if source.path.is_dir():
        yield from source.path.rglob("*")
    elif source.path.suffix == ".onnx":
        yield from source.path.parent.glob("*")  # any of which may hold its weights
    elif source.path.suffix in WEIGHTS_SUFFIXES:
        yield source.path.with_suffix(WEIGHTS_SUFFIXES[source.path.suffix])
