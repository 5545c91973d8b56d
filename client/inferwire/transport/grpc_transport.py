"""A `Transport` over gRPC: executions on the session's stream, all else as calls of one answer.

Owns which way a call goes. Messages are made in `codec`, paths and errors in `rpc`, and
`connection` keeps the channel.
"""

from __future__ import annotations

import itertools
import logging
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence

import grpc
from google.protobuf.message import Message

from inferwire.errors import InferwireError
from inferwire.transport import codec, rpc
from inferwire.transport.address import Address
from inferwire.transport.connection import Connection
from inferwire.transport.large_execution import LARGE_BYTES, LargeExecution
from inferwire.transport.protocol import (
    CompiledDescription,
    Execution,
    ExecutionHeader,
    LayerTime,
    ModelDescription,
    ModelSource,
    Outcome,
    PluginVersion,
    SequenceMark,
    StateValue,
    Target,
    WireBytes,
)
from inferwire.transport.releases import Released, Releases
from inferwire_proto import framing
from inferwire_proto.inferwire.v1 import devices_pb2, models_pb2, states_pb2
from inferwire_proto.properties import PropertyValue, from_wire, map_from_wire, map_to_wire

CONNECT_TIMEOUT_S = 5.0
CHUNK_BYTES = 1 << 20

_LOG = logging.getLogger(__name__)


class GrpcTransport:
    """The calls of one server. Connects with the first of them."""

    def __init__(self, address: Address, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self._address = str(address)
        self._connection = Connection(address, connect_timeout_s)
        self._headers: weakref.WeakKeyDictionary[ExecutionHeader, bytes] = weakref.WeakKeyDictionary()
        self._sequence_ids = itertools.count(1)
        connection, text = self._connection, self._address
        self._releases = Releases(lambda ids: _release(connection, text, ids))
        weakref.finalize(self, self._connection.finish)
        weakref.finalize(self, self._releases.stop)

    def __repr__(self) -> str:
        return f"<GrpcTransport over {self._connection!r}>"

    @property
    def address(self) -> str:
        """Where the server is."""
        return self._address

    def submit(
        self,
        header: ExecutionHeader,
        inputs: Sequence[WireBytes],
        deliver: Callable[[Outcome], None],
    ) -> Execution:
        """Send an execution, on the stream or, where it is large, as a call of its own."""
        link = self._connection.open()
        encoded = self._headers.get(header)
        if encoded is None:
            encoded = self._headers[header] = codec.encode_header(header)
        if sum(map(len, inputs)) < LARGE_BYTES:
            return link.stream.submit(encoded, inputs, deliver)
        execution = LargeExecution(link.channel, self._address, link.metadata, deliver)
        execution.start(encoded, inputs)
        return execution

    def served_model(self, name: str, version: str) -> ModelDescription:
        """Describe a model of the server's repository."""
        request = models_pb2.GetModelRequest(name=name, version=version)
        response = self._call("ModelService.GetModel", request, models_pb2.GetModelResponse)
        return codec.decode_model(response.model)

    def upload(self, blobs: Mapping[bytes, WireBytes]) -> None:
        """Upload the blobs that the session has not uploaded yet."""
        request = models_pb2.HasBlobsRequest(sha256=list(blobs))
        response = self._call("ModelService.HasBlobs", request, models_pb2.HasBlobsResponse)
        for (sha256, content), is_present in zip(blobs.items(), response.present, strict=True):
            if not is_present:
                self._upload(sha256, content)

    def read(self, source: ModelSource) -> ModelDescription:
        """Read uploaded blobs as a model, without compiling it."""
        request = models_pb2.ReadRequest(
            source=codec.encode_source(source), preprocessing=codec.encode_preprocessing(source)
        )
        return codec.decode_model(self._call("ModelService.Read", request, models_pb2.ReadResponse).model)

    def compile(self, source: ModelSource, device: str, properties: Mapping[str, PropertyValue]) -> CompiledDescription:
        """Compile an uploaded model for a device."""
        request = models_pb2.CompileRequest(
            source=codec.encode_source(source),
            device=device,
            properties=map_to_wire(properties),
            preprocessing=codec.encode_preprocessing(source),
        )
        response = self._call("ModelService.Compile", request, models_pb2.CompileResponse)
        self._releases.start()
        return CompiledDescription(response.compiled_id, codec.decode_model(response.model))

    def query(self, source: ModelSource, device: str, properties: Mapping[str, PropertyValue]) -> Mapping[str, str]:
        """Give the device that would run it for each node of an uploaded model that can run."""
        request = models_pb2.QueryRequest(
            source=codec.encode_source(source),
            device=device,
            properties=map_to_wire(properties),
            preprocessing=codec.encode_preprocessing(source),
        )
        return dict(self._call("ModelService.Query", request, models_pb2.QueryResponse).devices)

    def import_compiled(
        self, sha256: bytes, device: str, properties: Mapping[str, PropertyValue]
    ) -> CompiledDescription:
        """Make a model of an uploaded blob."""
        request = models_pb2.ImportRequest(sha256=sha256, device=device, properties=map_to_wire(properties))
        response = self._call("ModelService.Import", request, models_pb2.ImportResponse)
        self._releases.start()
        return CompiledDescription(response.compiled_id, codec.decode_model(response.model))

    def export(self, target: Target) -> bytes:
        """Give a model that can run as a blob."""
        link = self._connection.open()
        request = models_pb2.ExportRequest(target=codec.encode_target(target))
        try:
            parts = rpc.call_for_stream(
                link.channel, "ModelService.Export", request, models_pb2.ExportResponse, link.metadata
            )
            return b"".join(part.chunk for part in parts)
        except grpc.RpcError as error:
            raise rpc.error_from(error, self._address) from None

    def layers(self, target: Target) -> Sequence[LayerTime]:
        """List the layers of a model that can run."""
        request = models_pb2.ListLayersRequest(target=codec.encode_target(target))
        return codec.decode_layers(self._call("ModelService.ListLayers", request, models_pb2.ListLayersResponse).layers)

    def release(self, compiled_id: str) -> None:
        """Free a compiled model some time soon."""
        self._releases.put(compiled_id)

    def open_sequence(self) -> int:
        """Give an id for a sequence."""
        self._releases.start()
        return next(self._sequence_ids)

    def get_states(self, target: Target, sequence: SequenceMark, names: Sequence[str]) -> Sequence[StateValue]:
        """Read states of a sequence."""
        request = states_pb2.GetStatesRequest(
            target=codec.encode_target(target), sequence=codec.encode_sequence(sequence), names=names
        )
        data = self._call_raw("StateService.GetStates", request.SerializeToString())
        try:
            response, raw = framing.split(states_pb2.GetStatesResponse, data, framing.RAW_FIELD)
            return codec.decode_states(response.states, raw)
        except (ValueError, KeyError) as error:
            raise InferwireError(f"the answer of {self._address} cannot be read: {error}") from error

    def set_states(self, target: Target, sequence: SequenceMark, states: Sequence[StateValue]) -> None:
        """Replace states of a sequence."""
        request = states_pb2.SetStatesRequest(
            target=codec.encode_target(target),
            sequence=codec.encode_sequence(sequence),
            states=codec.encode_states(states),
        )
        buffers = [state.data for state in states]
        message = framing.join(request.SerializeToString(), buffers, framing.RAW_FIELD, framing.PADDING_FIELD)
        self._call_raw("StateService.SetStates", message)

    def reset_states(self, target: Target, sequence: SequenceMark, names: Sequence[str]) -> None:
        """Make states of a sequence fresh."""
        request = states_pb2.ResetStatesRequest(
            target=codec.encode_target(target), sequence=codec.encode_sequence(sequence), names=names
        )
        self._call("StateService.ResetStates", request, states_pb2.ResetStatesResponse)

    def release_sequence(self, sequence_id: int) -> None:
        """Free what the server keeps for a sequence some time soon."""
        self._releases.put(sequence_id)

    def devices(self) -> tuple[str, ...]:
        """List the server's devices."""
        request = devices_pb2.ListDevicesRequest()
        response = self._call("DeviceService.ListDevices", request, devices_pb2.ListDevicesResponse)
        return tuple(device.name for device in response.devices)

    def device_property(self, device: str, name: str) -> PropertyValue:
        """Read a property of a device, or of the runtime where `device` is empty."""
        request = devices_pb2.GetPropertyRequest(device=device, name=name)
        response = self._call("DeviceService.GetProperty", request, devices_pb2.GetPropertyResponse)
        return from_wire(response.value)

    def check_properties(self, device: str, properties: Mapping[str, PropertyValue]) -> Mapping[str, PropertyValue]:
        """Give properties as a device would take them."""
        request = devices_pb2.CheckPropertiesRequest(device=device, properties=map_to_wire(properties))
        response = self._call("DeviceService.CheckProperties", request, devices_pb2.CheckPropertiesResponse)
        return map_from_wire(response.properties)

    def extensions(self) -> tuple[str, ...]:
        """List the libraries of operations that the server has loaded."""
        request = devices_pb2.ListExtensionsRequest()
        return tuple(self._call("DeviceService.ListExtensions", request, devices_pb2.ListExtensionsResponse).names)

    def plugin_versions(self, device: str) -> Mapping[str, PluginVersion]:
        """Read the versions of a device's plugins."""
        request = devices_pb2.GetVersionsRequest(device=device)
        response = self._call("DeviceService.GetVersions", request, devices_pb2.GetVersionsResponse)
        return {name: PluginVersion(each.description, each.build_number) for name, each in response.versions.items()}

    def close(self) -> None:
        """End what is in flight and close the connection."""
        self._connection.close()

    def _call(self, method: str, request: Message, response_type: type[rpc.R]) -> rpc.R:
        link = self._connection.open()
        try:
            return rpc.call(link.channel, method, request, response_type, link.metadata)
        except grpc.RpcError as error:
            raise rpc.error_from(error, self._address) from None

    def _call_raw(self, method: str, request: bytes) -> bytes:
        link = self._connection.open()
        try:
            return rpc.call_raw(link.channel, method, request, link.metadata)
        except grpc.RpcError as error:
            raise rpc.error_from(error, self._address) from None

    def _upload(self, sha256: bytes, content: WireBytes) -> None:
        link = self._connection.open()
        try:
            rpc.call_with_stream(
                link.channel,
                "ModelService.Upload",
                _chunks(sha256, content),
                models_pb2.UploadResponse,
                link.metadata,
            )
        except grpc.RpcError as error:
            raise rpc.error_from(error, self._address) from None


def _chunks(sha256: bytes, content: WireBytes) -> Iterator[models_pb2.UploadRequest]:
    header = models_pb2.BlobHeader(sha256=sha256, byte_size=len(content))
    yield models_pb2.UploadRequest(header=header)
    for start in range(0, len(content), CHUNK_BYTES):
        yield models_pb2.UploadRequest(chunk=bytes(content[start : start + CHUNK_BYTES]))


def _release(connection: Connection, address: str, released: Sequence[Released]) -> None:
    """Free models and sequences, where a connection is open; a server that is gone has freed them."""
    link = connection.current
    if link is None:
        return
    request = models_pb2.ReleaseRequest(
        compiled_ids=[each for each in released if isinstance(each, str)],
        sequences=[each for each in released if isinstance(each, int)],
    )
    try:
        rpc.call(link.channel, "ModelService.Release", request, models_pb2.ReleaseResponse, link.metadata)
    except (grpc.RpcError, ValueError):
        _LOG.info("the server at %s did not free %d of its things; it will with the session", address, len(released))
