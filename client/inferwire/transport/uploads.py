"""Uploads the blobs of models to a session: each blob once, several at the same time, and in chunks.

Owns the record of what the session has, and has it freed once nothing here needs it. A server keeps uploads as long as
their session, and so is not asked.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import TypeAlias

from inferwire.process import THIS
from inferwire.transport import rpc
from inferwire.transport.caller import Caller
from inferwire.transport.descriptions import Blob, Blobs
from inferwire.transport.executions import WireBytes
from inferwire.transport.link import Link
from inferwire.transport.releases import Released, Releases
from inferwire_proto.inferwire.v1 import models_pb2

CHUNK_BYTES = 1 << 20

MOST_AT_ONCE = 8
"""How many blobs travel at the same time: each takes a thread of gRPC's, and an ONNX model may have hundreds."""


class Upload:
    """A blob in a session, which keeps it while this object lives.

    Attributes:
        is_there: Whether the session has it already.
    """

    __slots__ = ("__weakref__", "is_there")

    def __init__(self) -> None:
        self.is_there = False

    def __repr__(self) -> str:
        return f"<Upload: {'there' if self.is_there else 'under way'}>"


Uploaded: TypeAlias = tuple[Upload, ...]
"""What keeps the files of a model in the session."""


class SessionBlobs:
    """What one session has, or is about to get: the `Upload` of each blob that something here needs, by its SHA-256."""

    def __init__(self) -> None:
        self._session_id = ""
        self._uploads: weakref.WeakValueDictionary[bytes, Upload] = weakref.WeakValueDictionary()
        self._make_lock()
        THIS.after_fork(self._make_lock)

    def __repr__(self) -> str:
        # Without the session's id, with which others could resume the session.
        return f"<SessionBlobs: {len(self._uploads)}>"

    def upload(self, session_id: str, sha256: bytes, end: Callable[[Released], object]) -> Upload:
        """Give a blob's upload to a session; if there is none, one at whose end `end` is called, from a destructor."""
        with self._lock:
            if self._session_id != session_id:
                # What an earlier session had was freed with that.
                self._session_id, self._uploads = session_id, weakref.WeakValueDictionary()
            upload = self._uploads.get(sha256)
            if upload is None:
                upload = self._uploads[sha256] = Upload()
                weakref.finalize(upload, end, Released(sha256=sha256)).atexit = False
            return upload

    def is_needed(self, session_id: str, sha256: bytes) -> bool:
        """Whether something here needs a blob of a session."""
        return self._session_id == session_id and sha256 in self._uploads

    def _make_lock(self) -> None:
        # Reentrant, because garbage collection may run a program's destructor while this thread holds it.
        self._lock = threading.RLock()


class Uploads:
    """One client's uploads. Threads may race: if two upload the same blob at once, the server keeps it once."""

    def __init__(self, caller: Caller, there: SessionBlobs, releases: Releases) -> None:
        self._caller = caller
        self._there = there
        self._releases = releases
        self._of: weakref.WeakKeyDictionary[Blob, Upload] = weakref.WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<Uploads: {self._there!r}>"

    def bring(self, link: Link, blobs: Blobs) -> Uploaded:
        """Upload the blobs that a link's session does not have; it keeps them while they live here, or the result.

        Raises:
            ServerUnavailable: If the link is lost, though its channel may have connected again by itself.
        """
        uploads: dict[bytes, Upload] = {}
        for blob in blobs:
            upload = self._there.upload(link.session_id, blob.sha256, self._releases.put)
            uploads[blob.sha256] = self._of[blob] = upload
        missing = {blob.sha256: blob.content for blob in blobs if not uploads[blob.sha256].is_there}
        if missing:
            # What is not needed any more leaves its room. If that is a blob that is to come again, it goes before.
            if not self._releases.flush():
                raise rpc.unavailable(self._caller.address, "the connection was lost")
            self._send(link, missing)
        for sha256 in missing:
            uploads[sha256].is_there = True
        return tuple(uploads.values())

    def _send(self, link: Link, contents: dict[bytes, WireBytes]) -> None:
        """Upload contents, given by their SHA-256."""
        chunk_bytes = min(CHUNK_BYTES, link.stream.most_bytes // 2)
        streams = [_chunks(sha256, content, chunk_bytes) for sha256, content in contents.items()]
        for start in range(0, len(streams), MOST_AT_ONCE):
            some = streams[start : start + MOST_AT_ONCE]
            with rpc.as_own_errors(self._caller.address):
                rpc.call_with_streams(
                    link.channel, "ModelService.Upload", some, models_pb2.UploadResponse, link.metadata
                )


def _chunks(sha256: bytes, content: WireBytes, chunk_bytes: int) -> Iterator[models_pb2.UploadRequest]:
    header = models_pb2.BlobHeader(sha256=sha256, byte_size=len(content))
    yield models_pb2.UploadRequest(header=header)
    for start in range(0, len(content), chunk_bytes):
        yield models_pb2.UploadRequest(chunk=bytes(content[start : start + chunk_bytes]))
