"""The way to a server, its models and its devices: `Core`.

Owns the connection's lifetime and the properties set on this side. The objects that it gives out work
on their own: requests outlive the `Core` they come from.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any, Self, cast, overload

from inferwire.arguments import Unpicklable, as_integer, in_order, incompatible, openvino_class
from inferwire.core_properties import Config, CoreProperties, PropertyMap, is_config, is_known_here
from inferwire.extensions import add_extension
from inferwire.graph.ports import copy_labels
from inferwire.models.compiled_blobs import read_blob
from inferwire.models.compiled_model import CompiledModel
from inferwire.models.local_models import LocalModel, ModelFile, serialized
from inferwire.models.model import Model
from inferwire.models.model_files import ModelFiles, Weights, is_path, is_readable, no_path, read_files
from inferwire.not_offered import PartlyMirrored
from inferwire.property_values import from_contract
from inferwire.requests.remote_model import RemoteModel
from inferwire.tensors.remote_context import RemoteContext, context_of
from inferwire.tensors.tensor import Tensor
from inferwire.transport.address import parse_address
from inferwire.transport.credentials import credentials_for
from inferwire.transport.descriptions import Blob, CompiledDescription, ModelStatus
from inferwire.transport.executions import Target
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.protocol import Transport
from inferwire.transport.timeouts import Timeouts
from inferwire.values.plugin_version import Version
from inferwire_proto.properties import Properties

DEFAULT_DEVICE = "AUTO"

_FORMS_OF_GET_PROPERTY = (("property",), ("device_name", "property"), ("device_name", "name", "arguments"))
_COMPILE_SIGNATURES = (
    "(self: Core, model: Model | path | bytes, device_name: str, properties: Mapping[str, object])",
    "(self: Core, model: Model | path | bytes, context: RemoteContext, properties: Mapping[str, object])",
    "(self: Core, model: Model | path | bytes, properties: Mapping[str, object])",
)


class Core(Unpicklable, PartlyMirrored):
    """A server with its devices and models. Mirrors `openvino.Core`.

    Connects with the first call that needs the server, and again after the connection was lost.

    Differs from OpenVINO: the first argument is the server's address; `served_model` gives models of
    the server's repository; extensions are those the server has loaded; every device has a
    context; plugins are the server's business.

    Example:
        >>> core = Core("localhost:8001")
        >>> core.available_devices
        ['CPU']
        >>> model = core.served_model("efficientnet_lite0")
        >>> model({0: images})[0].shape
        (1, 1000)

    Args:
        address: "host:port", "grpcs://host:port" for TLS, "grpc://host:port" for gRPC alone, or "unix:path"; without
            one, that in the environment's INFERWIRE_ADDRESS, else "localhost:8001".
        api_key: The key that a server which was started with keys asks for; without one, that in the environment's
            INFERWIRE_API_KEY. Every call shows it, and nothing prints it. Without TLS it travels in clear.
        root_certificates: The path of a PEM file with the certificates by which a "grpcs://" server is trusted: of a
            private authority, or the server's own if it has signed that itself; without one, that in the
            environment's INFERWIRE_ROOT_CERTIFICATES, else what this machine trusts.
        timeouts: How long the server may be silent, as an `inferwire.Timeouts`; without one, as that has it.
        transport: A transport that is made already and calls the server; for the SDK's own commands and tests.

    Raises:
        TypeError: For what is no text, and time-outs that are no `Timeouts`.
        ValueError: For an address that is none of these, a key that no header can carry, a file that has no
            certificates, and certificates for an address without TLS.
    """

    def __init__(
        self,
        address: str | os.PathLike[str] | None = None,
        *,
        api_key: str | None = None,
        root_certificates: str | os.PathLike[str] | None = None,
        timeouts: Timeouts | None = None,
        transport: Transport | None = None,
    ) -> None:
        _check_address(address)
        if transport is None:
            place = parse_address(address)
            found = credentials_for(place, api_key, root_certificates)
            transport = GrpcTransport(place, _as_timeouts(timeouts), found)
        self._transport: Transport = transport
        self._properties = CoreProperties(self._transport.check_properties)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: server {self._transport.address}>"

    def __enter__(self) -> Self:
        """Give the core, for a `with` statement, which closes it at its end. Not in openvino."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Close the connection."""
        self.close()

    @property
    def available_devices(self) -> list[str]:
        """The server's devices. Mirrors `openvino.Core.available_devices`.

        Raises:
            RuntimeError: If no server answers, as `inferwire.ServerUnavailable`.
        """
        return list(self._transport.devices())

    def get_available_devices(self) -> list[str]:
        """Give `available_devices`."""
        return self.available_devices

    def served_model(self, name: str, version: str | int | None = None) -> CompiledModel:
        """Give a model of the server's repository; not in openvino.

        It runs on the device and with the properties that it has on the server.

        Args:
            name: The name it is served under.
            version: Its version; without one, each execution runs the one that is current then, and
                is refused if the model's ports have changed since.

        Raises:
            TypeError: For what is no name and version, such as properties.
            RuntimeError: If there is no such model, as `inferwire.ModelNotFound`, if it did not load, or
                no server answers.
        """
        is_version = version is None or isinstance(version, str) or as_integer(version) is not None
        if not isinstance(name, str) or not is_version:  # pyright: ignore[reportUnnecessaryIsInstance]
            signature = "(self: Core, name: str, version: str | int | None = None)"
            raise incompatible("served_model", signature, invoked=(self, name, version))
        wanted = "" if version is None else str(version)
        description = self._transport.served_model(name, wanted)
        target = Target(name, is_served=True, version=wanted, signature=description.signature)
        return CompiledModel.of(RemoteModel(self._transport, target, description))

    def served_models(self) -> list[ModelStatus]:
        """List what the server's repository serves: every version of each model, by name; not in openvino.

        Example:
            >>> [model.name for model in core.served_models() if model.state == "ready"]
            ['digits_mlp', 'efficientnet_lite0']

        Raises:
            RuntimeError: If no server answers.
        """
        return list(self._transport.served_models())

    def read_model(self, model: ModelFile, weights: Weights = None, config: Mapping[str, Any] | None = None) -> Model:
        """Read a model file of this machine and have the server describe it.

        Mirrors `openvino.Core.read_model`. Files are uploaded, once per session.

        Args:
            model: The path of an IR (with the .bin beside it), ONNX, TFLite, Paddle or TensorFlow file,
                or of a SavedModel's folder; the content of an IR, ONNX or Paddle file as bytes; XML as
                text, with weights; or a model of an installed openvino.
            weights: The path or the content of the weights.
            config: Not used.

        Raises:
            TypeError: For what is no model.
            RuntimeError: If a file is not there, the server cannot read it or does not allow uploads.
        """
        del config
        return Model.of(self._transport, serialized(model) or read_files(model, weights))

    def compile_model(
        self,
        model: Model | ModelFile,
        device_name: str | RemoteContext | None = None,
        config: Config = None,
        *,
        weights: Weights = None,
    ) -> CompiledModel:
        """Compile a model on the server. Mirrors `openvino.Core.compile_model`.

        Without a PERFORMANCE_HINT the server compiles for THROUGHPUT, for many callers; openvino does for LATENCY.

        Example:
            >>> compiled = core.compile_model("model.xml", "CPU", {"PERFORMANCE_HINT": "THROUGHPUT"})

        Args:
            model: What `read_model` gave, of this `Core` or another, or what it takes.
            device_name: A device as openvino names it, or a context of one; "AUTO" unless set.
            config: Properties, added to those of `set_property`.
            weights: As in `read_model`.

        Raises:
            RuntimeError: If the model, the device or a property is not known, or the server does not
                allow uploads; with OpenVINO's own text if it refused.
        """
        device = device_name.get_device_name() if isinstance(device_name, RemoteContext) else device_name
        device = DEFAULT_DEVICE if device is None else device
        if not (isinstance(device, str) and is_config(config)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise incompatible("compile_model", *_COMPILE_SIGNATURES, invoked=(self, model, device_name, config))
        _require_name(device)
        properties = self._properties.for_compile(device, config)
        if isinstance(model, Model):
            compiled = self._compiled(self._transport.compile(model.contents, device, properties), properties)
            copy_labels((*model.inputs, *model.outputs), (*compiled.inputs, *compiled.outputs))
            return compiled
        # The program never holds a model that was read, so one call compiles the files: the server reads them once.
        files = _files(model, weights)
        with files.told_in_own_words():
            return self._compiled(self._transport.compile(files.contents(), device, properties), properties)

    @overload
    def get_property(self, property: str) -> Any: ...
    @overload
    def get_property(self, device_name: str, property: str) -> Any: ...
    @overload
    def get_property(self, device_name: str, name: str, arguments: Mapping[str, Any]) -> Any: ...
    def get_property(self, *args: Any, **kwargs: Any) -> Any:
        """Give a property of a device, or of the runtime: `(device_name, property)` or `(property)`.

        Mirrors `openvino.Core.get_property`. What `set_property` was given comes first.

        Raises:
            TypeError: For other arguments, and as `inferwire.UnsupportedType` for a value that has no type in Python.
            RuntimeError: If the server does not know the device or the property.
        """
        given: tuple[Any, ...] = in_order(args, kwargs, *_FORMS_OF_GET_PROPERTY) or ()
        if len(given) == 3 and isinstance(given[2], Mapping) and not given[2]:
            given = given[:2]  # openvino's third argument is for properties that need one, and no device here has any
        if len(given) not in (1, 2) or not all(isinstance(each, str) for each in given):
            signatures = ("(self: Core, device_name: str, property: str)", "(self: Core, property: str)")
            raise incompatible("get_property", *signatures, invoked=(self, *args), keywords=kwargs)
        device, name = given if len(given) == 2 else ("", given[0])
        own = self._properties.get(device, name)
        if own is None or (not device and not is_known_here(name)):
            told = self._transport.device_property(device, name)  # which refuses what is no property of the runtime
            own = told if own is None else own
        return from_contract(own)

    @overload
    def set_property(self, properties: PropertyMap) -> None: ...
    @overload
    def set_property(self, property: tuple[str, Any]) -> None: ...
    @overload
    def set_property(self, device_name: str, properties: PropertyMap) -> None: ...
    @overload
    def set_property(self, device_name: str, property: tuple[str, Any]) -> None: ...
    def set_property(self, *args: Any, **kwargs: Any) -> None:
        """Set properties for later compilations: `([device_name,] properties)`, a dict or a pair.

        Mirrors `openvino.Core.set_property`. They belong to this `Core`; the server only checks them.

        Differs from OpenVINO: CACHE_DIR, ENABLE_CPU_RESERVATION, FORCE_TBB_TERMINATE and LOG_LEVEL, which the server's
        operator sets, are kept here, and models are compiled without them, with a RuntimeWarning. Without a device, a
        value is first checked where a device gets it, in `get_property` or `compile_model`, also if the device was used
        before.

        Example:
            >>> core.set_property("CPU", {"NUM_STREAMS": 2})
            >>> core.get_property("CPU", "NUM_STREAMS")
            2

        Raises:
            TypeError: For other arguments, and for a value of a type that no property has.
            RuntimeError: If the server does not know the device or the property, or the value is none.
        """
        self._properties.take(self, args, kwargs)

    def get_versions(self, device_name: str) -> dict[str, Version]:
        """Give the versions of a device's plugins. Mirrors `openvino.Core.get_versions`.

        Raises:
            TypeError: For what is no name of a device.
            RuntimeError: If no server answers.
        """
        if not isinstance(cast("object", device_name), str):
            raise incompatible("get_versions", "(self: Core, device_name: str)", invoked=(self, device_name))
        return dict(sorted(self._transport.plugin_versions(device_name).items()))

    def import_model(
        self, model_stream: bytes | io.BytesIO | Tensor, device_name: str, config: Config = None
    ) -> CompiledModel:
        """Make a compiled model of what `CompiledModel.export_model` gave. Mirrors `openvino.Core.import_model`.

        Differs from OpenVINO: the server's operator has to allow it (`--allow-imports`).

        Args:
            model_stream: The blob as bytes, a BytesIO or a Tensor.
            device_name: The device it was compiled for.
            config: Properties, as in `compile_model`.

        Raises:
            TypeError: For other arguments.
            RuntimeError: If it is no such blob, or the server does not allow imports.
        """
        if not (isinstance(device_name, str) and is_config(config)):  # pyright: ignore[reportUnnecessaryIsInstance]
            signature = "(self: Core, model_stream: object, device_name: str, properties: Mapping[str, object])"
            raise incompatible("import_model", signature, invoked=(self, model_stream, device_name, config))
        _require_name(device_name)
        blob = Blob.of(read_blob(model_stream))
        properties = self._properties.for_compile(device_name, config)
        imported = self._transport.import_compiled(blob, device_name, properties)
        return self._compiled(imported, properties)

    def query_model(self, model: Model | LocalModel, device_name: str, config: Config = None) -> dict[str, str]:
        """Give the device that would run each node that can run, by the node's friendly name.

        Mirrors `openvino.Core.query_model`. The server needs no more than to allow uploads.

        Args:
            model: What `read_model` gave, or a model of an installed openvino.
            device_name: A device as openvino names it.
            config: Properties, as in `compile_model`.

        Raises:
            TypeError: For what is no model, and other arguments.
            RuntimeError: If the device or a property is not known.
        """
        files = None if isinstance(model, Model) else serialized(model)
        read = model if files is None else Model.of(self._transport, files)
        if not (isinstance(read, Model) and isinstance(device_name, str) and is_config(config)):  # pyright: ignore[reportUnnecessaryIsInstance]
            signature = "(self: Core, model: Model, device_name: str, properties: Mapping[str, object] = {})"
            raise incompatible("query_model", signature, invoked=(self, model, device_name, config))
        _require_name(device_name)
        properties = self._properties.for_compile(device_name, config)
        return dict(sorted(self._transport.query(read.contents, device_name, properties).items()))

    def add_extension(self, *extensions: Any) -> None:
        """Make sure that the server has a library of operations. Mirrors `openvino.Core.add_extension`.

        Differs from OpenVINO: nothing is loaded; the server's operator has to have it load a library of the same
        name (`--extension`). Operations written in Python are not offered.

        Raises:
            TypeError: For other arguments.
            RuntimeError: If the server has no such library.
        """
        add_extension(self, self._transport, extensions)

    def create_context(self, device_name: str, properties: Mapping[str, Any] | None = None) -> RemoteContext:
        """Give a context, which makes tensors on the server. Mirrors `openvino.Core.create_context`.

        Differs from OpenVINO: CPU has a context too, and none takes properties.

        Raises:
            TypeError: For other arguments.
            RuntimeError: If the server has no such device, for properties, or if no server answers.
        """
        if not (isinstance(device_name, str) and is_config(properties)):  # pyright: ignore[reportUnnecessaryIsInstance]
            signature = "(self: Core, device_name: str, properties: Mapping[str, object])"
            raise incompatible("create_context", signature, invoked=(self, device_name, properties))
        return context_of(self._transport, device_name, properties)

    def get_default_context(self, device_name: str) -> RemoteContext:
        """Give a context, which makes tensors on the server. Mirrors `openvino.Core.get_default_context`.

        Differs from OpenVINO: CPU has a context too.

        Raises:
            TypeError: For other arguments.
            RuntimeError: If the server has no such device, or no server answers.
        """
        if not isinstance(device_name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            signature = "(self: Core, device_name: str)"
            raise incompatible("get_default_context", signature, invoked=(self, device_name))
        return context_of(self._transport, device_name)

    def close(self) -> None:
        """End what is in flight and close the connection; the next call opens it again. Not in openvino."""
        self._transport.close()

    def _compiled(self, compiled: CompiledDescription, properties: Properties) -> CompiledModel:
        target = Target(compiled.compiled_id, is_served=False, signature=compiled.model.signature)
        return CompiledModel.of(RemoteModel(self._transport, target, compiled.model, properties))


def compile_model(
    model: Model | ModelFile, device_name: str | None = DEFAULT_DEVICE, config: Config = None
) -> CompiledModel:
    """Compile a model on the server that `Core()` finds. Mirrors `openvino.compile_model`.

    Args:
        model: As in `Core.compile_model`.
        device_name: As there.
        config: As there.

    Raises:
        RuntimeError: As `Core.compile_model`.
    """
    return Core().compile_model(model, device_name, config)


def _check_address(address: str | os.PathLike[str] | None) -> None:
    """Refuse what parsing an address would not explain."""
    if not isinstance(address, str | os.PathLike | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f'Core() is given {address!r}, expected the address of a server as text, such as "host:8001"')
    text = os.fspath(address or "")
    if text.endswith(".xml"):
        raise ValueError(
            f"'{text}' is no address: Core takes that of a server, and the plugins that openvino reads from such a "
            "file are the server's"
        )


def _as_timeouts(given: object) -> Timeouts:
    """Give the time-outs of a core that was given these, or none."""
    if not isinstance(given, Timeouts | None):
        raise TypeError(f"timeouts is {given!r}, expected an inferwire.Timeouts")
    return given or Timeouts()


def _files(model: Any, weights: Weights) -> ModelFiles:
    """Read the files of a model that is to be compiled and was not read by a server before."""
    if isinstance(model, bytes) and weights is None and is_path(model):
        model = os.fsdecode(model)
    if not (is_readable(model) or openvino_class(model) == "Model"):
        raise no_path(model)
    return serialized(model) or read_files(model, weights)


def _require_name(device: str) -> None:
    """Refuse an empty name, which the server would take for its default device."""
    if not device:
        raise RuntimeError('Device with "" name is not registered in the OpenVINO Runtime')
