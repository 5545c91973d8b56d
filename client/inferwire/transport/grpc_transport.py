"""A `Transport` over gRPC: executions go on the session's stream, everything else as calls beside it.

Owns which way a call goes, and puts together the requests of those about models and devices. `codec` and `model_codec`
write and read the values in them, `rpc` knows paths and errors, and `connection` keeps the channel.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from math import inf
from time import perf_counter
from typing import TypeVar

from google.protobuf.message import Message

from inferwire.errors import LOST, InferwireError, InvalidInput, ModelNotFound
from inferwire.transport import codec, model_codec, rpc
from inferwire.transport.address import Address
from inferwire.transport.caller import Caller
from inferwire.transport.compiled_models import CompiledModels
from inferwire.transport.connection import Connection
from inferwire.transport.credentials import Credentials
from inferwire.transport.descriptions import (
    Blob,
    Blobs,
    CompiledDescription,
    GraphDescription,
    ModelContents,
    ModelDescription,
    ModelStatus,
)
from inferwire.transport.executions import (
    Deliver,
    Execution,
    ExecutionHeader,
    LayerTime,
    Target,
    WireBytes,
)
from inferwire.transport.grpc_states import GrpcStates
from inferwire.transport.grpc_tensors import GrpcTensors
from inferwire.transport.lending import Lending
from inferwire.transport.link import Link
from inferwire.transport.releases import Released, Releases
from inferwire.transport.served_models import what_there_is
from inferwire.transport.submission import Retries, Submission
from inferwire.transport.timeouts import Timeouts
from inferwire.transport.uploads import SessionBlobs, Uploaded, Uploads
from inferwire.transport.wire_sender import WireSender
from inferwire.values.plugin_version import Version
from inferwire_proto.inferwire.v1 import devices_pb2, inference_pb2, models_pb2
from inferwire_proto.preprocessing import Recording, put_recording
from inferwire_proto.properties import PropertyValue, map_to_wire

T = TypeVar("T")
Made = TypeVar("Made", models_pb2.CompileResponse, models_pb2.ImportResponse)

_LOG = logging.getLogger(__name__)


class GrpcTransport:
    """Calls to one server. The first of them connects.

    Attributes:
        address: Where the server is.
        closed_at: When it was closed last.
        tensors: The tensors that the server keeps.
        states: The states that the server keeps.
        lend: Gives memory in which the server may read inputs in place.
    """

    closed_at = -inf

    def __init__(
        self,
        address: Address,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - immutable
        credentials: Credentials = Credentials(),  # noqa: B008 - immutable
    ) -> None:
        self.address = str(address)
        self._compiled = compiled = CompiledModels(self.address)
        # Nothing that is made here refers back to the transport, and the connection to nothing that refers to it, so
        # that the connection ends as soon as the transport is gone. What is freed refers to the models weakly, because
        # their files refer to what frees those.
        there, models = SessionBlobs(), weakref.ref(compiled)
        self._releases = Releases(lambda released: _release(caller, models(), there, released))
        self._connection = Connection(address, timeouts, credentials, self._releases.wake)
        self._caller = caller = Caller(self._connection, self.address)
        self._uploads = Uploads(self._caller, there, self._releases)
        lending = Lending(address, self._releases)
        self.lend = lending.memory
        self._sender = WireSender(self.address, compiled, lending)
        self._retries = Retries(self._sender, self._connection.replace, self._releases.flush)
        self.tensors = GrpcTensors(self._caller, self._releases)
        self.states = GrpcStates(self._caller, self._compiled, self._releases)
        weakref.finalize(self, self._connection.finish)
        weakref.finalize(self, self._releases.stop)

    def __repr__(self) -> str:
        return f"<GrpcTransport over {self._connection!r}>"

    def submit(
        self,
        header: ExecutionHeader,
        inputs: Sequence[WireBytes],
        deliver: Deliver,
        *,
        is_awaited: bool = False,
    ) -> Execution:
        """Send an execution on the stream or, if it is large, as a call of its own."""
        submission = Submission(header, inputs, deliver, self._retries, is_awaited=is_awaited)
        link = self._connection.open()
        try:
            submission.send(self._sender, link)
        except LOST:
            # It was not sent, as where its model could not be compiled again in the link's session.
            submission.send(self._sender, self._connection.replace(link))
        return submission

    def is_ready(self, header: ExecutionHeader) -> bool:
        """Whether a link is open and its session has the model."""
        link = self._connection.current
        return link is not None and self._sender.is_ready(link, header)

    def served_model(self, name: str, version: str) -> ModelDescription:
        """Describe a model of the server's repository."""
        request = models_pb2.GetModelRequest(name=name, version=version)
        try:
            response = self._caller.call("ModelService.GetModel", request, models_pb2.GetModelResponse)
        except (ModelNotFound, InvalidInput) as error:
            raise type(error)(f"{error}{self._what_there_is(name)}", error.retry_after_s) from None
        return model_codec.decode_model(response.model)

    def served_models(self) -> Sequence[ModelStatus]:
        """List every version of every model of the server's repository."""
        request = models_pb2.ListModelsRequest()
        response = self._caller.call("ModelService.ListModels", request, models_pb2.ListModelsResponse)
        return model_codec.decode_statuses(response.models)

    def labels(self, name: str, version: str) -> tuple[str, ...]:
        """Give the names of the classes of a model of the server's repository."""
        request = models_pb2.GetLabelsRequest(name=name, version=version)
        return tuple(self._caller.call("ModelService.GetLabels", request, models_pb2.GetLabelsResponse).labels)

    def _what_there_is(self, name: str) -> str:
        """Say what is served, for the error about a model that is not; empty if the server does not tell."""
        try:
            return f"; {what_there_is(self.served_models(), name)}"
        except InferwireError:
            return ""

    def read(self, contents: ModelContents) -> ModelDescription:
        """Read a model, without compiling it."""
        response = self._call_about(contents, "ModelService.Read", models_pb2.ReadRequest(), models_pb2.ReadResponse)
        return model_codec.decode_model(response.model)

    def graph(self, contents: ModelContents) -> GraphDescription:
        """Describe the graph of a model, without compiling it."""
        request = models_pb2.ListNodesRequest()
        response = self._call_about(contents, "ModelService.ListNodes", request, models_pb2.ListNodesResponse)
        return model_codec.decode_graph(response)

    def describe_preprocessing(self, contents: ModelContents, recording: Recording) -> str:
        """Say in OpenVINO's words what is recorded on a processor of a model."""
        request = models_pb2.DescribePreprocessingRequest()
        put_recording(request, recording)
        response_type = models_pb2.DescribePreprocessingResponse
        return self._call_about(contents, "ModelService.DescribePreprocessing", request, response_type).text

    def compile(
        self, contents: ModelContents, device: str, properties: Mapping[str, PropertyValue]
    ) -> CompiledDescription:
        """Compile a model for a device, and again after a session was lost."""
        request = models_pb2.CompileRequest(device=device, properties=map_to_wire(properties))
        model_codec.put_source(request, contents.source)
        return self._make("ModelService.Compile", request, models_pb2.CompileResponse, contents.blobs, contents.again)

    def query(self, contents: ModelContents, device: str, properties: Mapping[str, PropertyValue]) -> Mapping[str, str]:
        """Give the device that would run each node of a model, for the nodes that can run."""
        request = models_pb2.QueryRequest(device=device, properties=map_to_wire(properties))
        response = self._call_about(contents, "ModelService.Query", request, models_pb2.QueryResponse)
        return dict(response.devices)

    def import_compiled(self, blob: Blob, device: str, properties: Mapping[str, PropertyValue]) -> CompiledDescription:
        """Make a model of what `export` gave, and again after a session was lost."""
        request = models_pb2.ImportRequest(sha256=blob.sha256, device=device, properties=map_to_wire(properties))
        return self._make("ModelService.Import", request, models_pb2.ImportResponse, (blob,), lambda: (blob,))

    def export(self, target: Target) -> bytes:
        """Serialise a model that can run, as a blob."""

        def export(link: Link, named: inference_pb2.Target) -> bytes:
            request = models_pb2.ExportRequest(target=named)
            blob = BytesIO()

            def take(part: models_pb2.ExportResponse) -> None:
                blob.write(part.chunk)

            self._caller.stream_on(link, "ModelService.Export", request, models_pb2.ExportResponse, take)
            return blob.getvalue()

        return self._ask_about(target, export)

    def runtime_model(self, target: Target) -> GraphDescription:
        """Describe the graph that the device of a model runs."""

        def ask(link: Link, named: inference_pb2.Target) -> models_pb2.GetRuntimeModelResponse:
            request = models_pb2.GetRuntimeModelRequest(target=named)
            return self._caller.call_on(
                link, "ModelService.GetRuntimeModel", request, models_pb2.GetRuntimeModelResponse
            )

        return model_codec.decode_graph(self._ask_about(target, ask))

    def layers(self, target: Target) -> Sequence[LayerTime]:
        """List the layers of a model that can run."""

        def ask(link: Link, named: inference_pb2.Target) -> models_pb2.ListLayersResponse:
            request = models_pb2.ListLayersRequest(target=named)
            return self._caller.call_on(link, "ModelService.ListLayers", request, models_pb2.ListLayersResponse)

        return codec.decode_layers(self._ask_about(target, ask).layers)

    def release(self, compiled_id: str) -> None:
        """Free a compiled model some time soon."""
        self._releases.put(Released(compiled_id=compiled_id))

    def devices(self) -> tuple[str, ...]:
        """List the server's devices."""
        request = devices_pb2.ListDevicesRequest()
        response = self._caller.call("DeviceService.ListDevices", request, devices_pb2.ListDevicesResponse)
        return tuple(device.name for device in response.devices)

    def device_property(self, device: str, name: str) -> PropertyValue:
        """Read a property of a device, or of the runtime if `device` is empty."""
        request = devices_pb2.GetPropertyRequest(device=device, name=name)
        response = self._caller.call("DeviceService.GetProperty", request, devices_pb2.GetPropertyResponse)
        return model_codec.decode_property(name, response.value)

    def check_properties(self, device: str, properties: Mapping[str, PropertyValue]) -> Mapping[str, PropertyValue]:
        """Give properties as a device would take them."""
        request = devices_pb2.CheckPropertiesRequest(device=device, properties=map_to_wire(properties))
        response = self._caller.call("DeviceService.CheckProperties", request, devices_pb2.CheckPropertiesResponse)
        return {name: model_codec.decode_property(name, value) for name, value in response.properties.items()}

    def extensions(self) -> tuple[str, ...]:
        """List the libraries of operations that the server has loaded."""
        request = devices_pb2.ListExtensionsRequest()
        response = self._caller.call("DeviceService.ListExtensions", request, devices_pb2.ListExtensionsResponse)
        return tuple(response.names)

    def plugin_versions(self, device: str) -> Mapping[str, Version]:
        """Read the versions of a device's plugins."""
        request = devices_pb2.GetVersionsRequest(device=device)
        response = self._caller.call("DeviceService.GetVersions", request, devices_pb2.GetVersionsResponse)
        return {name: Version(each.build_number, each.description) for name, each in response.versions.items()}

    def close(self) -> None:
        """End what is in flight and close the connection."""
        # First, so that nothing which ends thereby begins again what was refused before.
        self.closed_at = perf_counter()
        self._connection.close()

    def _make(
        self, method: str, request: Message, response_type: type[Made], blobs: Blobs, again: Callable[[], Blobs]
    ) -> CompiledDescription:
        """Make a model that can run, and again if the session that has it is lost."""
        # `make_anew` is kept as long as the model, and must not keep the transport.
        uploads, caller = self._uploads, self._caller

        def make_on(link: Link) -> tuple[Link, Uploaded, Made]:
            files = uploads.bring(link, blobs)
            self._releases.flush()
            return link, files, caller.call_on(link, method, request, response_type)

        def make_anew(link: Link) -> tuple[str, Uploaded]:
            files = uploads.bring(link, again())
            return caller.call_on(link, method, request, response_type).compiled_id, files

        link, files, response = caller.repeat_if_lost(make_on)
        self._compiled.add(link, response.compiled_id, files, make_anew)
        return CompiledDescription(response.compiled_id, model_codec.decode_model(response.model))

    def _call_about(
        self, contents: ModelContents, method: str, request: model_codec.SourceRequest, response_type: type[rpc.R]
    ) -> rpc.R:
        """Make a call about files once the link's session has them; if the link is lost, once more on a new one."""
        model_codec.put_source(request, contents.source)

        def call(link: Link) -> rpc.R:
            self._uploads.bring(link, contents.blobs)
            return self._caller.call_on(link, method, request, response_type)

        return self._caller.repeat_if_lost(call)

    def _ask_about(self, target: Target, ask: Callable[[Link, inference_pb2.Target], T]) -> T:
        """Make a call about a model, by its name in the link's session; if the link is lost, once more on a new one."""

        def ask_on(link: Link) -> T:
            return ask(link, codec.encode_target(self._compiled.target_on(link, target)))

        return self._caller.repeat_if_lost(ask_on)


def _release(
    caller: Caller, compiled: CompiledModels | None, there: SessionBlobs, released: Sequence[Released]
) -> bool:
    """Free things in the session; return False if its connection is lost, because the session may be resumed.

    Waits for cancelled executions first, which may still make what is to be freed. Models of an earlier session were
    freed with that, and blobs may be needed again since they were let go.
    """
    link = caller.connection.current_for_calls
    if link is None:
        return False
    link.stream.await_cancelled()
    found = [compiled.entry(each.compiled_id) for each in released if compiled and each.compiled_id]
    request = models_pb2.ReleaseRequest(
        compiled_ids=[entry.compiled_id for entry in found if entry and entry.session_id == link.session_id],
        sequences=[each.sequence for each in released if each.sequence],
        tensors=[each.tensor for each in released if each.tensor],
        lent=[each.lent for each in released if each.lent],
        sha256=[each.sha256 for each in released if each.sha256 and not there.is_needed(link.session_id, each.sha256)],
    )
    try:
        caller.call_on(link, "ModelService.Release", request, models_pb2.ReleaseResponse)
    except LOST:
        return False
    except InferwireError as error:
        _LOG.info("%d things are freed with the session and not before: %s", len(released), error)
    for each in released:
        if compiled:
            compiled.remove(each.compiled_id)
    return True
