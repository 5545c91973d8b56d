"""Single calls: what the server says against them, in the client's own errors."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import repeat
from traceback import format_exception
from weakref import ref

import grpc
import pytest
from tests.client.transport.endings import Endings
from tests.client.transport.scripted_server import DATA, ScriptedServer, methods_of
from tests.waiting import LIMIT_S, wait_until

import inferwire as ov
from inferwire.transport import rpc
from inferwire.transport.descriptions import Blob, ModelContents, ModelSource
from inferwire.transport.executions import Target
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.large_execution import LargeExecution
from inferwire.transport.uploads import MOST_AT_ONCE
from inferwire_proto.errors import CODE_METADATA, RETRY_AFTER_METADATA
from inferwire_proto.inferwire.v1 import models_pb2


def test_the_code_in_the_metadata_makes_the_exception(server: ScriptedServer, transport: GrpcTransport) -> None:
    def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(((CODE_METADATA, "MODEL_NOT_FOUND"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "model 'm' is not served")

    server.unary["GetModel"] = refuse
    with pytest.raises(ov.ModelNotFound, match="model 'm' is not served"):
        transport.served_model("m", "")


def test_a_name_that_nothing_is_served_under_is_one_error_and_not_a_chain(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(((CODE_METADATA, "MODEL_NOT_FOUND"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "model 'm' is not served")

    def list_models(request: bytes, context: grpc.ServicerContext) -> bytes:
        return models_pb2.ListModelsResponse().SerializeToString()

    server.unary |= {"GetModel": refuse, "ListModels": list_models}
    with pytest.raises(ov.ModelNotFound, match=r"model 'm' is not served; .+") as caught:
        transport.served_model("m", "")
    assert "".join(format_exception(caught.value)).count("model 'm' is not served") == 1


@pytest.mark.parametrize(
    ("sent", "read"), [("1", 1.0), ("0.5", 0.5), ("0", None), ("inf", None), ("Fri, 31 Dec 1999 23:59:59 GMT", None)]
)
def test_the_metadata_say_when_to_try_again(
    server: ScriptedServer, transport: GrpcTransport, sent: str, read: float | None
) -> None:
    def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(((CODE_METADATA, "QUEUE_FULL"), (RETRY_AFTER_METADATA, sent)))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")

    server.unary["GetModel"] = refuse
    with pytest.raises(ov.QueueFull, match="full") as caught:
        transport.served_model("m", "")
    assert caught.value.retry_after_s == read


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, ov.ServerUnavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, ov.DeadlineExceeded),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ov.TooLarge),
        (grpc.StatusCode.UNIMPLEMENTED, ov.Unimplemented),
        (grpc.StatusCode.CANCELLED, ov.ServerUnavailable),
        (grpc.StatusCode.DATA_LOSS, ov.InferwireError),
    ],
)
def test_a_status_without_a_code_is_translated(
    server: ScriptedServer, transport: GrpcTransport, status: grpc.StatusCode, kind: type[Exception]
) -> None:
    server.unary["GetModel"] = lambda request, context: context.abort(status, "because")
    with pytest.raises(kind, match="because") as caught:
        transport.served_model("m", "")
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "status", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED]
)
def test_a_code_of_a_later_server_is_the_servers_sentence_and_nothing_else(
    server: ScriptedServer, transport: GrpcTransport, status: grpc.StatusCode
) -> None:
    def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(((CODE_METADATA, "OF_A_LATER_VERSION"), (RETRY_AFTER_METADATA, "3")))
        context.abort(status, "the model rests")

    server.unary["GetModel"] = refuse
    with pytest.raises(ov.InferwireError) as caught:
        transport.served_model("m", "")
    assert type(caught.value) is ov.InferwireError
    assert (str(caught.value), caught.value.code, caught.value.retry_after_s) == ("the model rests", None, 3.0)


def test_a_call_that_is_not_offered_says_what_the_server_may_be(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    server.unary["GetModel"] = lambda request, context: context.abort(
        grpc.StatusCode.UNIMPLEMENTED, "Method not found!"
    )
    with pytest.raises(ov.Unimplemented, match="it is older than this client, or no server of inferwire"):
        transport.served_model("m", "")


def test_calls_of_every_kind_on_a_channel_that_was_closed_meanwhile_raise_the_clients_own_error(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    with closing(grpc.insecure_channel(f"127.0.0.1:{server.port}")) as channel:
        pass
    with pytest.raises(ov.ServerUnavailable, match="Cannot invoke RPC"):
        LargeExecution(channel, "here", (), Endings().take).start(b"", [DATA])
    calls: list[Callable[[], object]] = [
        lambda: rpc.call_with_streams(channel, "ModelService.Upload", ((),), models_pb2.UploadResponse, ()),
        lambda: rpc.call(channel, "ModelService.Read", models_pb2.ReadRequest(), models_pb2.ReadResponse, ()),
        lambda: rpc.call_raw(channel, "ModelService.Read", b"", ()),
        lambda: rpc.call_for_stream(
            channel, "ModelService.Export", models_pb2.ExportRequest(), models_pb2.ExportResponse, (), print
        ),
    ]
    for call in calls:
        with pytest.raises(ov.ServerUnavailable, match="Cannot invoke RPC"), rpc.as_own_errors("here"):
            call()


def test_an_error_that_is_not_grpcs_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="a bug of ours"), rpc.as_own_errors("here"):
        raise ValueError("a bug of ours")


def test_a_blob_that_comes_in_parts_is_held_once(server: ScriptedServer, transport: GrpcTransport) -> None:
    part = models_pb2.ExportResponse(chunk=bytes(1 << 20)).SerializeToString()
    server.streamed["Export"] = lambda request, context: repeat(part, 32)
    tracemalloc.start()
    try:
        blob = transport.export(Target("m", is_served=True))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert blob == bytes(32 << 20)
    assert most < 1.5 * len(blob)


def test_blobs_are_uploaded_once_in_chunks(server: ScriptedServer, transport: GrpcTransport) -> None:
    """And beside each other: a session that has none takes two round trips, and one that has them a single one."""
    uploads: list[bytes] = []
    both_are_under_way = threading.Barrier(2)

    def upload(request: bytes, context: grpc.ServicerContext) -> bytes:
        uploads.append(request)
        both_are_under_way.wait(LIMIT_S)
        return b""

    server.unary.update(Upload=upload, Read=lambda data, context: b"")
    contents = bytes(range(256)) * 5000, b"weights"
    blobs = Blob(contents[0], b"a" * 32), Blob(contents[1], b"b" * 32)
    for _ in range(2):
        transport.read(ModelContents(ModelSource(b"a" * 32, b"b" * 32, ".xml", {}, {}), blobs, tuple))
    assert methods_of(server) == ["Session", "Upload", "Upload", "Read", "Read"]
    sizes = {models_pb2.UploadRequest.FromString(each).header.byte_size: len(each) for each in uploads}
    assert sizes.keys() == {*map(len, contents)}
    assert all(sent > byte_size for byte_size, sent in sizes.items())


def test_of_many_blobs_as_many_travel_at_once_as_there_may_be_threads(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    server.unary.update(Upload=lambda data, context: b"", Read=lambda data, context: b"")
    blobs = tuple([Blob(b"content", bytes([number]) * 32) for number in range(2 * MOST_AT_ONCE + 1)])
    transport.read(ModelContents(ModelSource(b"a" * 32, b"", ".onnx", {}, {}), blobs, tuple))
    assert methods_of(server).count("Upload") == len(blobs)


def test_a_blob_that_is_refused_is_told_and_uploaded_by_who_tries_again(
    server: ScriptedServer, transport: GrpcTransport
) -> None:
    refusals = [grpc.StatusCode.RESOURCE_EXHAUSTED]

    def upload(request: bytes, context: grpc.ServicerContext) -> bytes:
        if refusals:
            context.abort(refusals.pop(), "there is no room")
        return b""

    server.unary.update(Upload=upload, Read=lambda data, context: b"")
    contents = ModelContents(ModelSource(b"a" * 32, b"", ".onnx", {}, {}), (Blob(DATA, b"a" * 32),), tuple)
    with pytest.raises(ov.TooLarge, match="there is no room"):
        transport.read(contents)
    transport.read(contents)
    assert methods_of(server) == ["Session", "Upload", "Upload", "Read"]


def test_where_a_blob_is_refused_the_others_travel_no_further(server: ScriptedServer, transport: GrpcTransport) -> None:
    is_ended = threading.Event()
    both_are_under_way = threading.Barrier(2)

    def upload(request: bytes, context: grpc.ServicerContext) -> bytes:
        both_are_under_way.wait(LIMIT_S)
        if len(models_pb2.UploadRequest.FromString(request).chunk) > len(DATA):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "there is no room")
        if not context.add_callback(is_ended.set):  # it has ended before
            is_ended.set()
        is_ended.wait(LIMIT_S)
        return b""

    server.unary["Upload"] = upload
    blobs = Blob(DATA + b"longer", b"a" * 32), Blob(DATA, b"b" * 32)
    with pytest.raises(ov.TooLarge, match="there is no room"):
        transport.read(ModelContents(ModelSource(b"a" * 32, b"b" * 32, ".xml", {}, {}), blobs, tuple))
    assert is_ended.wait(LIMIT_S)


class Held:
    """What a caller has at hand while its call fails."""


def test_an_error_that_was_dealt_with_keeps_nothing_of_its_caller() -> None:
    def fail() -> ref[Held]:
        held = Held()
        with suppress(ov.ServerUnavailable), rpc.as_own_errors("here"):
            raise ValueError("Cannot invoke RPC on closed channel!")
        return ref(held)

    gc.disable()
    try:
        assert fail()() is None
    finally:
        gc.enable()


class Failing:
    """Ways in which calls fail that gRPC raises themselves, each after one that succeeds."""

    def __init__(self, server: ScriptedServer, transport: GrpcTransport) -> None:
        self._server = server
        self._transport = transport
        self._server.unary |= {"Upload": lambda request, context: b"", "Read": lambda request, context: b""}
        self._read(b"a")

    def upload(self) -> object:
        self._server.unary["Upload"] = self._refuse
        with pytest.raises(ov.TooLarge) as caught:
            self._read(b"b")
        return caught

    def large_execution(self) -> object:
        self._server.unary["Infer"] = self._refuse
        outcomes = Endings()
        with closing(grpc.insecure_channel(f"127.0.0.1:{self._server.port}")) as channel:
            LargeExecution(channel, "here", (), outcomes.take).start(b"", [DATA])
            error = outcomes.get(timeout=LIMIT_S).error
            assert isinstance(error, ov.TooLarge)
        return error

    def _read(self, content: bytes) -> None:
        blobs = (Blob(content, content * 32),)
        self._transport.read(ModelContents(ModelSource(blobs[0].sha256, b"", ".onnx", {}, {}), blobs, tuple))

    def _refuse(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "there is no room")


@pytest.mark.parametrize("fail", [Failing.upload, Failing.large_execution])
def test_an_error_keeps_no_call(
    server: ScriptedServer, transport: GrpcTransport, fail: Callable[[Failing], object]
) -> None:
    """A call that is destroyed as the interpreter ends may wait for ever.

    It waits for its lock, which one of gRPC's threads may have had when it was stopped.
    """

    def calls() -> int:
        return sum(isinstance(each, grpc.Call) for each in gc.get_objects())

    failing = Failing(server, transport)
    gc.collect()
    gc.disable()
    try:
        before = calls()
        kept = fail(failing)
        # The thread that has told of the end may not have let go of them yet, nor those of earlier calls before.
        wait_until(lambda: calls() <= before)
        del kept
    finally:
        gc.enable()
