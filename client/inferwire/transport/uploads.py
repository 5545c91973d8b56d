"""Uploads the blobs of models to a session: each blob once, several at the same time, and in chunks.

Owns the record of what the session has. A server keeps uploads as long as their session, and so is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from inferwire.transport import rpc
from inferwire.transport.caller import Caller
from inferwire.transport.executions import WireBytes
from inferwire.transport.link import Link
from inferwire_proto.inferwire.v1 import models_pb2

CHUNK_BYTES = 1 << 20

MOST_AT_ONCE = 8
"""How many blobs travel at the same time: each takes a thread of gRPC's, and an ONNX model may have hundreds."""


class Uploads:
    """One client's uploads. Threads may race: if two upload the same blob at once, the server keeps it once."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._uploaded: tuple[str, set[bytes]] = ("", set())

    def __repr__(self) -> str:
        _, blobs = self._uploaded  # and not the session's id, with which others could resume the session
        return f"<Uploads: {len(blobs)} blobs are there>"

    def bring(self, link: Link, blobs: Mapping[bytes, WireBytes]) -> None:
        """Upload the blobs, given by their SHA-256, that a link's session does not have."""
        session_id, uploaded = self._uploaded
        if session_id != link.session_id:
            session_id, uploaded = self._uploaded = (link.session_id, set[bytes]())
        missing = {sha256: content for sha256, content in blobs.items() if sha256 not in uploaded}
        chunk_bytes = min(CHUNK_BYTES, link.stream.most_bytes // 2)
        streams = [_chunks(sha256, content, chunk_bytes) for sha256, content in missing.items()]
        for start in range(0, len(streams), MOST_AT_ONCE):
            some = streams[start : start + MOST_AT_ONCE]
            with rpc.as_own_errors(self._caller.address):
                rpc.call_with_streams(
                    link.channel, "ModelService.Upload", some, models_pb2.UploadResponse, link.metadata
                )
        uploaded.update(missing)


def _chunks(sha256: bytes, content: WireBytes, chunk_bytes: int) -> Iterator[models_pb2.UploadRequest]:
    header = models_pb2.BlobHeader(sha256=sha256, byte_size=len(content))
    yield models_pb2.UploadRequest(header=header)
    for start in range(0, len(content), chunk_bytes):
        yield models_pb2.UploadRequest(chunk=bytes(content[start : start + chunk_bytes]))
