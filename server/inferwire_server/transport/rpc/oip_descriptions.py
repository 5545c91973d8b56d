"""Models as the Open Inference Protocol's messages describe them."""

from __future__ import annotations

from collections.abc import Iterable

from inferwire_server.service.models import Model
from inferwire_server.service.values import Region
from inferwire_server.transport.oip import ModelMetadata, TensorMetadata
from inferwire_server.transport.oip_repository import IndexEntry
from inferwire_server.transport.oip_stubs import grpc_service_pb2 as pb
from inferwire_server.transport.oip_stubs import model_config_pb2

_KINDS = {"CPU": model_config_pb2.ModelInstanceGroup.KIND_CPU, "GPU": model_config_pb2.ModelInstanceGroup.KIND_GPU}


def encode_metadata(metadata: ModelMetadata) -> pb.ModelMetadataResponse:
    """Describe a model's ports and versions."""
    return pb.ModelMetadataResponse(
        name=metadata.name,
        versions=metadata.versions,
        platform=metadata.platform,
        inputs=_encode_tensors(metadata.inputs),
        outputs=_encode_tensors(metadata.outputs),
    )


def encode_config(metadata: ModelMetadata, model: Model) -> model_config_pb2.ModelConfig:
    """Write a model's configuration: what is true of it here, and nothing of what is not.

    The largest batch is 0, by which the protocol means that shapes are whole, with the batch in them.
    """
    kind = _KINDS.get(model.device.name.partition(".")[0], model_config_pb2.ModelInstanceGroup.KIND_AUTO)
    return model_config_pb2.ModelConfig(
        name=metadata.name,
        platform=metadata.platform,
        backend=metadata.platform,
        max_batch_size=0,
        input=[
            model_config_pb2.ModelInput(name=port.name, data_type=_data_type(port.datatype), dims=port.shape)
            for port in metadata.inputs
        ],
        output=[
            model_config_pb2.ModelOutput(name=port.name, data_type=_data_type(port.datatype), dims=port.shape)
            for port in metadata.outputs
        ],
        instance_group=[model_config_pb2.ModelInstanceGroup(name=metadata.name, kind=kind, count=model.slots)],
    )


def encode_index(entries: Iterable[IndexEntry]) -> pb.RepositoryIndexResponse:
    """Write what the repository holds."""
    return pb.RepositoryIndexResponse(
        models=[
            pb.RepositoryIndexResponse.ModelIndex(
                name=entry.name, version=entry.version, state=entry.state, reason=entry.reason
            )
            for entry in entries
        ]
    )


def encode_regions(regions: Iterable[Region]) -> pb.SystemSharedMemoryStatusResponse:
    """Write what shared memory is registered."""
    return pb.SystemSharedMemoryStatusResponse(
        regions={
            region.name: pb.SystemSharedMemoryStatusResponse.RegionStatus(
                name=region.name, key=region.key, offset=region.offset, byte_size=region.byte_size
            )
            for region in regions
        }
    )


def _encode_tensors(tensors: Iterable[TensorMetadata]) -> list[pb.ModelMetadataResponse.TensorMetadata]:
    return [
        pb.ModelMetadataResponse.TensorMetadata(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        for tensor in tensors
    ]


def _data_type(datatype: str) -> model_config_pb2.DataType.ValueType:
    name = "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"
    if name not in model_config_pb2.DataType.DESCRIPTOR.values_by_name:
        return model_config_pb2.TYPE_INVALID
    return model_config_pb2.DataType.Value(name)
