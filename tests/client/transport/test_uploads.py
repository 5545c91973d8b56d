"""Uploaded blobs: the session keeps each while something here needs it, and frees it before it comes again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from tests.client.transport.scripted_server import DATA, ScriptedServer
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S

from inferwire.transport.descriptions import Blob, CompiledDescription, ModelContents, ModelSource
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.releases import Released
from inferwire.transport.uploads import SessionBlobs
from inferwire_proto.inferwire.v1 import models_pb2

SHA = b"a" * 32


class Calls:
    """What has come of a server's calls about models, as far as a test wants to know."""

    def __init__(self, server: ScriptedServer) -> None:
        self.seen: SimpleQueue[str] = SimpleQueue()
        self.releasing: SimpleQueue[None] = SimpleQueue()
        self.may_release = threading.Event()
        self.may_release.set()
        self.lost_session = ""
        self._compiled = iter(range(100))
        server.unary |= {
            "Upload": lambda data, context: self._note(
                f"upload {models_pb2.UploadRequest.FromString(data).header.sha256[:1].decode()}"
            ),
            "Read": lambda data, context: self._note("read"),
            "Compile": self._compile,
            "Release": self._release,
        }

    def next(self, count: int) -> list[str]:
        return [self.seen.get(timeout=LIMIT_S) for _ in range(count)]

    def _note(self, name: str) -> bytes:
        self.seen.put(name)
        return b""

    def _compile(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        self._note("compile")
        return models_pb2.CompileResponse(compiled_id=f"m{next(self._compiled)}").SerializeToString()

    def _release(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        self.releasing.put(None)
        metadata: Any = context.invocation_metadata()
        if dict(metadata)["inferwire-session"] == self.lost_session:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the connection is lost")
        assert self.may_release.wait(LIMIT_S)
        request = models_pb2.ReleaseRequest.FromString(data)
        for compiled_id in request.compiled_ids:
            self._note(f"free {compiled_id}")
        for sha256 in request.sha256:
            self._note(f"free {sha256[:1].decode()}")
        return b""


@pytest.fixture
def calls(server: ScriptedServer) -> Iterator[Calls]:
    calls = Calls(server)
    yield calls
    calls.may_release.set()


def contents_of(*blobs: Blob) -> ModelContents:
    return ModelContents(ModelSource(blobs[0].sha256, b"", ".onnx", {}, {}), blobs, tuple)


def contents() -> ModelContents:
    return contents_of(Blob(DATA, SHA))


def compile_(transport: GrpcTransport, model: ModelContents) -> CompiledDescription:
    return transport.compile(model, "CPU", {})


def test_a_blob_is_freed_with_the_last_of_what_is_made_of_it(calls: Calls, transport: GrpcTransport) -> None:
    model = contents()
    transport.read(model)
    first, second = compile_(transport, model), compile_(transport, contents())
    assert calls.next(4) == ["upload a", "read", "compile", "compile"]
    del model
    transport.release(first.compiled_id)
    assert calls.next(1) == ["free m0"]
    transport.release(second.compiled_id)
    assert calls.next(2) == ["free m1", "free a"]
    compile_(transport, contents())
    assert calls.next(2) == ["upload a", "compile"]


def test_of_two_blobs_the_one_that_is_needed_stays(calls: Calls, transport: GrpcTransport) -> None:
    shared, own = Blob(DATA, SHA), Blob(DATA, b"b" * 32)
    transport.read(contents_of(shared, own))
    assert sorted(calls.next(3)[:2]) == ["upload a", "upload b"]
    del own
    assert calls.next(1) == ["free b"]
    transport.read(contents_of(shared))
    assert calls.next(1) == ["read"]


def test_a_blob_that_is_being_freed_comes_again_only_after_that(calls: Calls, transport: GrpcTransport) -> None:
    calls.may_release.clear()
    transport.read(contents())
    calls.releasing.get(timeout=LIMIT_S)
    with DaemonThreads() as threads:
        again = threads.submit(transport.read, contents())
        with pytest.raises(TimeoutError):
            again.result(0.1)
        calls.may_release.set()
        again.result(LIMIT_S)
    assert calls.next(5) == ["upload a", "read", "free a", "upload a", "read"]


def test_where_what_is_not_needed_cannot_be_freed_others_come_on_a_new_connection(
    server: ScriptedServer, calls: Calls, transport: GrpcTransport
) -> None:
    calls.lost_session = "session-1"
    transport.read(contents())
    transport.read(contents_of(Blob(DATA, b"b" * 32)))
    assert calls.next(5) == ["upload a", "read", "free a", "upload b", "read"]
    assert len(server.hellos) == 2


def test_a_blob_that_is_needed_again_before_it_was_freed_is_not_freed() -> None:
    there, ended = SessionBlobs(), list[Released]()
    first = there.upload("s", SHA, ended.append)
    assert there.upload("s", SHA, ended.append) is first
    assert there.is_needed("s", SHA)
    assert not there.is_needed("another", SHA)
    assert repr(there) == "<SessionBlobs: 1>"
    del first
    assert ended == [Released(sha256=SHA)]
    assert not there.is_needed("s", SHA)
    second = there.upload("s", SHA, ended.append)
    assert there.is_needed("s", SHA)
    assert repr(second) == "<Upload: under way>"
    third = there.upload("another", SHA, ended.append)
    assert third is not second
    assert not there.is_needed("s", SHA)


def test_a_release_passes_over_what_is_needed_again(
    server: ScriptedServer, calls: Calls, transport: GrpcTransport
) -> None:
    model = contents()
    transport.read(model)
    # As where a thread lets the last go while another one needs it anew.
    transport._releases.put(Released(sha256=SHA, tensor=1))
    transport._releases.flush()
    assert calls.next(2) == ["upload a", "read"]
    assert calls.seen.empty()
    transport.read(model)
    assert calls.next(1) == ["read"]
