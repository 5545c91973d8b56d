"""ModelService of inferwire.v1: what the repository serves, and what sessions upload and compile."""

from __future__ import annotations

from collections.abc import AsyncIterator

from inferwire_proto.inferwire.v1 import inference_pb2
from inferwire_proto.inferwire.v1 import models_pb2 as pb
from inferwire_server.core.sessions import Session
from inferwire_server.core.version_states import VersionState
from inferwire_server.errors import invalid_input
from inferwire_server.service import Services
from inferwire_server.service.models import Model
from inferwire_server.service.uploads import Compilation
from inferwire_server.service.values import ServedModel, Target
from inferwire_server.transport.rpc.caller import named_session, session_of
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.v1_descriptions import (
    decode_properties,
    decode_recording,
    decode_source,
    encode_model,
    encode_nodes,
    encode_runtime_model,
    encode_spec,
)
from inferwire_server.transport.v1.codec import decode_target, encode_layers

_STATES = {state: pb.ModelState.Value(f"MODEL_STATE_{state.name}") for state in VersionState}
"""What the wire says of states."""

_CHUNK_BYTES = 1 << 20


class ModelCalls:
    """Answers the calls of ModelService."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def get_model(self, request: pb.GetModelRequest, _: Context) -> pb.GetModelResponse:
        """Describe a served model."""
        model = self._services.models.resolve(_served(request))
        return pb.GetModelResponse(model=await self._services.gil_thread.run(encode_model, model))

    async def list_models(self, _request: pb.ListModelsRequest, _: Context) -> pb.ListModelsResponse:
        """List every version of every served model."""
        statuses = [
            pb.ModelStatus(name=served.name, version=served.version, state=_STATES[served.state], reason=served.reason)
            for served in self._services.models.statuses()
        ]
        return pb.ListModelsResponse(models=statuses)

    async def get_labels(self, request: pb.GetLabelsRequest, _: Context) -> pb.GetLabelsResponse:
        """Give the names of a served model's classes."""
        return pb.GetLabelsResponse(labels=self._services.models.resolve(_served(request)).options.labels)

    async def load_model(self, request: pb.LoadModelRequest, _: Context) -> pb.LoadModelResponse:
        """Load a model of the repository, or load it anew."""
        await self._services.models.load(request.name)
        return pb.LoadModelResponse()

    async def unload_model(self, request: pb.UnloadModelRequest, _: Context) -> pb.UnloadModelResponse:
        """Unload a model when it has run the jobs it has."""
        await self._services.models.unload(request.name)
        return pb.UnloadModelResponse()

    async def has_blobs(self, request: pb.HasBlobsRequest, context: Context) -> pb.HasBlobsResponse:
        """Say which blobs the session need not upload again."""
        return pb.HasBlobsResponse(present=self._services.uploads.has_blobs(self._session(context), request.sha256))

    async def upload(self, requests: AsyncIterator[pb.UploadRequest], context: Context) -> pb.UploadResponse:
        """Take in one blob."""
        session = self._session(context)
        first = await anext(requests, None)
        if first is None or not first.HasField("header"):
            raise invalid_input("the upload's first message has no header, expected the blob's hash and size")
        header = first.header
        await self._services.uploads.upload(session, header.sha256, header.byte_size, _chunks(first, requests))
        return pb.UploadResponse()

    async def read(self, request: pb.ReadRequest, context: Context) -> pb.ReadResponse:
        """Read an uploaded model and describe it."""
        source = decode_source(request.source, request.preprocessing)
        spec = await self._services.uploads.read(self._session(context), source)
        return pb.ReadResponse(model=encode_spec(spec))

    async def list_nodes(self, request: pb.ListNodesRequest, context: Context) -> pb.ListNodesResponse:
        """List the nodes of an uploaded model."""
        source = decode_source(request.source, request.preprocessing)
        graph = await self._services.uploads.graph(self._session(context), source)
        return await self._services.gil_thread.run(encode_nodes, graph)

    async def describe_preprocessing(
        self, request: pb.DescribePreprocessingRequest, context: Context
    ) -> pb.DescribePreprocessingResponse:
        """Say what is recorded on a processor of an uploaded model, in OpenVINO's words."""
        source, recording = decode_source(request.source, request.preprocessing), decode_recording(request)
        text = await self._services.uploads.describe_preprocessing(self._session(context), source, recording)
        return pb.DescribePreprocessingResponse(text=text)

    async def compile(self, request: pb.CompileRequest, context: Context) -> pb.CompileResponse:
        """Compile an uploaded model."""
        compilation = _compilation(request)
        source, session = decode_source(request.source, request.preprocessing), self._session(context)
        compiled_id, model = await self._services.uploads.compile(session, source, compilation)
        return pb.CompileResponse(compiled_id=compiled_id, model=await self._described(session, compiled_id, model))

    async def query(self, request: pb.QueryRequest, context: Context) -> pb.QueryResponse:
        """Say which nodes of an uploaded model a device runs."""
        source = decode_source(request.source, request.preprocessing)
        devices = await self._services.uploads.query(self._session(context), source, _compilation(request))
        return pb.QueryResponse(devices=devices)

    async def import_(self, request: pb.ImportRequest, context: Context) -> pb.ImportResponse:
        """Make a model of an uploaded blob."""
        session, compilation = self._session(context), _compilation(request)
        compiled_id, model = await self._services.uploads.import_compiled(session, request.sha256, compilation)
        return pb.ImportResponse(compiled_id=compiled_id, model=await self._described(session, compiled_id, model))

    async def export(self, request: pb.ExportRequest, context: Context) -> None:
        """Send a model as a blob, in parts."""
        blob = memoryview(await self._services.models.export(self._target(request.target, context)))
        for start in range(0, len(blob), _CHUNK_BYTES):
            part = pb.ExportResponse(chunk=bytes(blob[start : start + _CHUNK_BYTES]))
            await context.write(part.SerializeToString())

    async def get_runtime_model(
        self, request: pb.GetRuntimeModelRequest, context: Context
    ) -> pb.GetRuntimeModelResponse:
        """Describe the graph that a model's device runs."""
        graph = await self._services.models.runtime_model(self._target(request.target, context))
        return await self._services.gil_thread.run(encode_runtime_model, graph)

    async def list_layers(self, request: pb.ListLayersRequest, context: Context) -> pb.ListLayersResponse:
        """List the layers of a model that can run."""
        layers = await self._services.models.layers(self._target(request.target, context))
        return pb.ListLayersResponse(layers=encode_layers(layers))

    async def release(self, request: pb.ReleaseRequest, context: Context) -> pb.ReleaseResponse:
        """Free compiled models, blobs, the states of sequences, kept tensors and lent memory."""
        session = self._session(context)
        self._services.inference.release_sequences(session, request.sequences)
        self._services.tensors.release(session, request.tensors)
        self._services.tensors.lent.release(session, request.lent)
        await self._services.uploads.release(session, request.compiled_ids, request.sha256)
        return pb.ReleaseResponse()

    async def _described(self, session: Session, compiled_id: str, model: Model) -> pb.ModelInfo:
        """Describe a model that has been compiled, or free it: a caller that is not told its id can never do so."""
        try:
            return await self._services.gil_thread.run(encode_model, model)
        except BaseException:
            await self._services.uploads.release(session, [compiled_id])
            raise

    def _target(self, target: inference_pb2.Target, context: Context) -> Target:
        return decode_target(target, named_session(self._services.sessions, context))

    def _session(self, context: Context) -> Session:
        return session_of(self._services.sessions, context)


def _served(request: pb.GetModelRequest | pb.GetLabelsRequest) -> ServedModel:
    return ServedModel(request.name, request.version)


def _compilation(request: pb.CompileRequest | pb.QueryRequest | pb.ImportRequest) -> Compilation:
    return Compilation(request.device or "AUTO", decode_properties(request.properties))


async def _chunks(first: pb.UploadRequest, requests: AsyncIterator[pb.UploadRequest]) -> AsyncIterator[bytes]:
    """Yield an upload's content."""
    yield first.chunk
    async for request in requests:
        if request.HasField("header"):
            raise invalid_input("the upload has a second header, expected one in its first message only")
        yield request.chunk
