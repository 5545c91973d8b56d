"""The blobs of models on their way to a session: each once, and in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from inferwire.transport import rpc
from inferwire.transport.caller import Caller
from inferwire.transport.connection import Link
from inferwire.transport.executions import WireBytes
from inferwire_proto.inferwire.v1 import models_pb2

CHUNK_BYTES = 1 << 20


def upload_missing(caller: Caller, link: Link, blobs: Mapping[bytes, WireBytes]) -> None:
    """Upload those of the blobs, by their SHA-256, that a link's session has not."""
    request = models_pb2.HasBlobsRequest(sha256=list(blobs))
    response = caller.call_on(link, "ModelService.HasBlobs", request, models_pb2.HasBlobsResponse)
    for (sha256, content), is_present in zip(blobs.items(), response.present, strict=True):
        if not is_present:
            _upload(caller, link, sha256, content)


def _upload(caller: Caller, link: Link, sha256: bytes, content: WireBytes) -> None:
    chunks = _chunks(sha256, content, min(CHUNK_BYTES, link.stream.most_bytes // 2))
    with rpc.as_own_errors(caller.address):
        rpc.call_with_stream(link.channel, "ModelService.Upload", chunks, models_pb2.UploadResponse, link.metadata)


def _chunks(sha256: bytes, content: WireBytes, chunk_bytes: int) -> Iterator[models_pb2.UploadRequest]:
    header = models_pb2.BlobHeader(sha256=sha256, byte_size=len(content))
    yield models_pb2.UploadRequest(header=header)
    for start in range(0, len(content), chunk_bytes):
        yield models_pb2.UploadRequest(chunk=bytes(content[start : start + chunk_bytes]))
