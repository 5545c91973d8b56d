"""Models as the Open Inference Protocol's messages describe them."""

from __future__ import annotations

from collections.abc import Iterable

from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb
from inferwire_server.service.values import Region
from inferwire_server.transport.oip.metadata import ModelMetadata, TensorMetadata
from inferwire_server.transport.oip.repository import IndexEntry


def encode_metadata(metadata: ModelMetadata) -> pb.ModelMetadataResponse:
    """Describe a model's ports and versions."""
    return pb.ModelMetadataResponse(
        name=metadata.name,
        versions=metadata.versions,
        platform=metadata.platform,
        inputs=_encode_tensors(metadata.inputs),
        outputs=_encode_tensors(metadata.outputs),
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
