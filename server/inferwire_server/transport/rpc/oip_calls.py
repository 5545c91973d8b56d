"""GRPCInferenceService of the Open Inference Protocol."""

from __future__ import annotations

from time import monotonic
from typing import NoReturn

from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb
from inferwire_server.open_inference.stubs import model_config_pb2
from inferwire_server.service import Services
from inferwire_server.service.values import Region
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.message_limits import checked
from inferwire_server.transport.oip import repository
from inferwire_server.transport.oip.config import config
from inferwire_server.transport.oip.inference import answer_of
from inferwire_server.transport.oip.logs import log_settings, set_log_settings
from inferwire_server.transport.oip.metadata import extensions_of, model_metadata
from inferwire_server.transport.oip.shared_memory import check_cuda_status, no_cuda
from inferwire_server.transport.oip.statistics import statistics
from inferwire_server.transport.oip.tracing import set_trace_settings
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.oip_codec import encode_answer, split_request
from inferwire_server.transport.rpc.oip_descriptions import encode_index, encode_metadata, encode_regions
from inferwire_server.transport.rpc.oip_plans import LONG_CONTENTS, decode_parameters, long_plan, plan_of
from inferwire_server.transport.rpc.oip_settings import (
    decode_log_settings,
    decode_trace_settings,
    encode_log_settings,
    encode_trace_settings,
)
from inferwire_server.transport.rpc.oip_stream import OipStream

KEYLESS = frozenset({"ServerLive", "ServerReady"})
"""The calls that probes make."""


class OipCalls:
    """Answers the calls of GRPCInferenceService."""

    def __init__(self, services: Services, drain: Drain, max_message_bytes: int) -> None:
        self._services = services
        self._drain = drain
        self._max_message_bytes = max_message_bytes

    async def server_live(self, _request: pb.ServerLiveRequest, _: Context) -> pb.ServerLiveResponse:
        """Say that the process answers."""
        return pb.ServerLiveResponse(live=True)

    async def server_ready(self, _request: pb.ServerReadyRequest, _: Context) -> pb.ServerReadyResponse:
        """Say whether the server takes inferences."""
        return pb.ServerReadyResponse(ready=self._services.health.is_ready)

    async def model_ready(self, request: pb.ModelReadyRequest, _: Context) -> pb.ModelReadyResponse:
        """Say whether a model takes inferences."""
        return pb.ModelReadyResponse(ready=self._services.health.is_model_ready(request.name, request.version))

    async def server_metadata(self, _request: pb.ServerMetadataRequest, _: Context) -> pb.ServerMetadataResponse:
        """Name the server and its extensions."""
        identity = self._services.health.identity
        return pb.ServerMetadataResponse(
            name=identity.name, version=identity.version, extensions=extensions_of(self._services)
        )

    async def model_metadata(self, request: pb.ModelMetadataRequest, _: Context) -> pb.ModelMetadataResponse:
        """Describe a model's ports."""
        return encode_metadata(model_metadata(self._services, request.name, request.version))

    async def model_config(self, request: pb.ModelConfigRequest, _: Context) -> pb.ModelConfigResponse:
        """Describe a model as its configuration."""
        found = config(self._services, request.name, request.version)
        return pb.ModelConfigResponse(config=model_config_pb2.ModelConfig(**found))

    async def model_statistics(self, request: pb.ModelStatisticsRequest, _: Context) -> pb.ModelStatisticsResponse:
        """Say how often models have run and how long it took."""
        found = statistics(self._services, request.name, request.version)
        return pb.ModelStatisticsResponse(model_stats=[pb.ModelStatistics(**model) for model in found])

    async def repository_index(self, request: pb.RepositoryIndexRequest, _: Context) -> pb.RepositoryIndexResponse:
        """List what the repository holds."""
        return encode_index(repository.index(self._services, ready_only=request.ready))

    async def repository_model_load(
        self, request: pb.RepositoryModelLoadRequest, _: Context
    ) -> pb.RepositoryModelLoadResponse:
        """Load or reload a model, and answer when it is ready."""
        await repository.load(self._services, request.model_name, decode_parameters(request.parameters))
        return pb.RepositoryModelLoadResponse()

    async def repository_model_unload(
        self, request: pb.RepositoryModelUnloadRequest, _: Context
    ) -> pb.RepositoryModelUnloadResponse:
        """Unload a model, and answer when its last job has ended."""
        await self._services.models.unload(request.model_name)
        return pb.RepositoryModelUnloadResponse()

    async def log_settings(self, request: pb.LogSettingsRequest, _: Context) -> pb.LogSettingsResponse:
        """Say what is logged, and change it first if that is asked for."""
        set_log_settings(self._services, decode_log_settings(request))
        return encode_log_settings(log_settings(self._services))

    async def trace_setting(self, request: pb.TraceSettingRequest, _: Context) -> pb.TraceSettingResponse:
        """Say whether inferences are traced, and refuse to change that."""
        given = decode_trace_settings(request)
        return encode_trace_settings(set_trace_settings(self._services, given, request.model_name))

    async def system_shared_memory_register(
        self, request: pb.SystemSharedMemoryRegisterRequest, _: Context
    ) -> pb.SystemSharedMemoryRegisterResponse:
        """Map a region of shared memory."""
        region = Region(request.name, request.key, request.offset, request.byte_size)
        await self._services.shared_memory.register(region)
        return pb.SystemSharedMemoryRegisterResponse()

    async def system_shared_memory_status(
        self, request: pb.SystemSharedMemoryStatusRequest, _: Context
    ) -> pb.SystemSharedMemoryStatusResponse:
        """List the regions of shared memory."""
        return encode_regions(self._services.shared_memory.regions(request.name))

    async def system_shared_memory_unregister(
        self, request: pb.SystemSharedMemoryUnregisterRequest, _: Context
    ) -> pb.SystemSharedMemoryUnregisterResponse:
        """Unregister a region of shared memory, or all."""
        self._services.shared_memory.unregister(request.name)
        return pb.SystemSharedMemoryUnregisterResponse()

    async def cuda_shared_memory_register(self, request: pb.CudaSharedMemoryRegisterRequest, _: Context) -> NoReturn:
        """Refuse a region of a GPU."""
        raise no_cuda(request.name)

    async def cuda_shared_memory_status(
        self, request: pb.CudaSharedMemoryStatusRequest, _: Context
    ) -> pb.CudaSharedMemoryStatusResponse:
        """List no regions."""
        check_cuda_status(request.name)
        return pb.CudaSharedMemoryStatusResponse()

    async def cuda_shared_memory_unregister(
        self, _request: pb.CudaSharedMemoryUnregisterRequest, _: Context
    ) -> pb.CudaSharedMemoryUnregisterResponse:
        """Do nothing: there are no regions of GPUs."""
        return pb.CudaSharedMemoryUnregisterResponse()

    async def model_infer(self, data: bytes, context: Context) -> bytes:
        """Run one inference."""
        received_at = monotonic()
        request_id, head, raw = split_request(data)
        is_long = len(data) > LONG_CONTENTS and not raw
        plan = await long_plan(self._services, head) if is_long else plan_of(head, len(raw))
        job = await self._services.inference.infer(plan.inference(raw), received_at, context.caller, context.outlet)
        answer = encode_answer(answer_of(self._services, plan.wanted, job), request_id)
        message = checked(answer, self._max_message_bytes)
        self._services.inference.answered(job)
        return message

    async def model_stream_infer(self, _: object, context: Context) -> None:
        """Run many inferences on one stream."""
        await OipStream(self._services, self._drain, context, self._max_message_bytes).run()
