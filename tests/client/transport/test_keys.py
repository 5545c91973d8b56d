"""Every call that the client makes shows the key; a server that refuses it is not asked twice."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import grpc
import pytest
from tests.client.transport.endings import Endings
from tests.client.transport.scripted_server import DATA, F32, HEADER, ScriptedServer, submit
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport import connection
from inferwire.transport.address import Address, parse_address
from inferwire.transport.credentials import API_KEY_VARIABLE, Credentials
from inferwire.transport.descriptions import Blob, ModelContents, ModelSource
from inferwire.transport.executions import ExecutionHeader, SequenceMark, StoredBox, Target, TensorSpec
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.lending import LEAST_BYTES
from inferwire.transport.operator_calls import OperatorCalls
from inferwire.transport.session.session_stream import LARGE_BYTES
from inferwire.transport.timeouts import Timeouts
from inferwire_proto.errors import CODE_METADATA
from inferwire_proto.preprocessing import Recording

KEY = Credentials("s3cret")
SHOWN = "Bearer s3cret"
CONTENTS = ModelContents(ModelSource(b"sha", b"", ".onnx", {}, {}), (Blob(DATA, b"sha"),), tuple)
SERVED, MARK = Target("m", is_served=True), SequenceMark(1, is_start=False)
CLIENT = Path(connection.__file__).parent


def address_of(server: ScriptedServer) -> Address:
    return parse_address(f"127.0.0.1:{server.port}")


def empty(data: bytes, context: grpc.ServicerContext) -> bytes:
    return b""


def lend_twice(transport: GrpcTransport) -> None:
    """Send from memory that the server can read in place; it is asked with the second execution."""
    memory = transport.lend(LEAST_BYTES)
    assert memory is not None
    header = ExecutionHeader(HEADER.target, (TensorSpec(0, F32, (LEAST_BYTES // 4,)),))
    for _ in range(2):
        transport.submit(header, [memory.wire_data(LEAST_BYTES)], Endings().take)


Act = Callable[[GrpcTransport], object]
CALLS: dict[str, Act] = {
    "Session": lambda transport: submit(transport, Endings()),
    "Infer": lambda transport: transport.submit(HEADER, [bytes(LARGE_BYTES)], Endings().take),
    "LendMemory": lend_twice,
    "GetModel": lambda transport: transport.served_model("m", ""),
    "Upload": lambda transport: transport.read(CONTENTS),
    "Read": lambda transport: transport.read(CONTENTS),
    "ListNodes": lambda transport: transport.graph(CONTENTS),
    "DescribePreprocessing": lambda transport: transport.describe_preprocessing(CONTENTS, Recording(())),
    "Compile": lambda transport: transport.compile(CONTENTS, "CPU", {}),
    "Query": lambda transport: transport.query(CONTENTS, "CPU", {}),
    "Import": lambda transport: transport.import_compiled(Blob(DATA, b"sha"), "CPU", {}),
    "Export": lambda transport: transport.export(SERVED),
    "GetRuntimeModel": lambda transport: transport.runtime_model(SERVED),
    "ListLayers": lambda transport: transport.layers(SERVED),
    "GetStates": lambda transport: transport.states.get(SERVED, MARK, ()),
    "SetStates": lambda transport: transport.states.set(SERVED, MARK, ()),
    "ResetStates": lambda transport: transport.states.reset(SERVED, MARK, ()),
    "CreateTensor": lambda transport: transport.tensors.create(1, F32, (2,)),
    "PutTensor": lambda transport: transport.tensors.put(StoredBox(1), F32, (2,), DATA),
    "GetTensor": lambda transport: transport.tensors.get(StoredBox(1)),
    "Release": lambda transport: (transport.devices(), transport.tensors.release(transport.tensors.new_id())),
    "ListDevices": lambda transport: transport.devices(),
    "GetProperty": lambda transport: transport.device_property("CPU", "NAME"),
    "CheckProperties": lambda transport: transport.check_properties("CPU", {}),
    "ListExtensions": lambda transport: transport.extensions(),
    "GetVersions": lambda transport: transport.plugin_versions("CPU"),
}

OPERATORS: dict[str, Callable[[OperatorCalls], object]] = {
    "ListModels": lambda calls: calls.models(),
    "GetModel": lambda calls: calls.model("m"),
    "GetLabels": lambda calls: calls.labels("m"),
    "LoadModel": lambda calls: calls.load("m"),
    "UnloadModel": lambda calls: calls.unload("m"),
    "Infer": lambda calls: calls.infer(HEADER, [DATA], Endings().take),
}


def metadata_of(server: ScriptedServer, method: str) -> dict[str, str]:
    """Wait for a call of a method; every call before it has shown the key as well."""
    while True:
        called, metadata = server.calls.get(timeout=LIMIT_S)
        assert metadata.get("authorization") == SHOWN, called
        if called == method:
            return metadata


@pytest.mark.parametrize(("method", "call"), CALLS.items(), ids=CALLS)
def test_every_call_of_a_session_shows_the_key(server: ScriptedServer, method: str, call: Act) -> None:
    server.unary = dict.fromkeys(CALLS, empty)
    with closing(GrpcTransport(address_of(server), Timeouts(LIMIT_S), KEY)) as transport:
        # What an empty answer leaves to be said is the business of other tests.
        with suppress(ov.InferwireError, ValueError):
            call(transport)
        metadata = metadata_of(server, method)
    assert method == "Session" or metadata["inferwire-session"] == "session-1"


@pytest.mark.parametrize(("method", "call"), OPERATORS.items(), ids=OPERATORS)
def test_every_call_of_an_operator_shows_the_key(
    server: ScriptedServer, method: str, call: Callable[[OperatorCalls], object]
) -> None:
    server.unary = dict.fromkeys(OPERATORS, empty)
    with OperatorCalls(address_of(server), KEY) as calls:
        call(calls)
        metadata_of(server, method)


def test_no_call_is_left_out_here() -> None:
    """Whoever adds a call adds it above."""
    sources = "".join(path.read_text() for path in CLIENT.rglob("*.py"))
    made = set(re.findall(r'"[A-Z][A-Za-z]+Service\.(\w+)"', sources))
    assert made - {"Compile"} > {"Session", "Infer"}
    assert made == set(CALLS) | set(OPERATORS)


def test_without_a_key_none_is_shown(server: ScriptedServer) -> None:
    server.unary["ListDevices"] = lambda data, context: b""
    with closing(GrpcTransport(address_of(server), Timeouts(LIMIT_S))) as transport:
        transport.devices()
    calls = [server.calls.get(timeout=LIMIT_S) for _ in range(2)]
    assert [method for method, _ in calls] == ["Session", "ListDevices"]
    assert not any("authorization" in metadata for _, metadata in calls)


def test_a_core_shows_the_key_that_it_was_given_else_that_of_the_environment(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.unary["ListDevices"] = lambda data, context: b""
    monkeypatch.setenv(API_KEY_VARIABLE, "theirs")
    for given, shown in (("mine", "Bearer mine"), (None, "Bearer theirs")):
        with closing(ov.Core(str(address_of(server)), api_key=given)) as core:
            assert core.available_devices == []
        for _ in range(2):
            assert server.calls.get(timeout=LIMIT_S)[1]["authorization"] == shown


def test_a_connection_that_was_lost_is_opened_again_with_the_key(server: ScriptedServer) -> None:
    with closing(GrpcTransport(address_of(server), Timeouts(LIMIT_S), KEY)) as transport:
        submit(transport, Endings())
        server.received.get(timeout=LIMIT_S)
        server.answers.put(None)
        server.received.get(timeout=LIMIT_S)
        for _ in range(2):
            metadata_of(server, "Session")


class RefusingServer(ScriptedServer):
    """Refuses every session, with a code or without."""

    def __init__(self, status: grpc.StatusCode, sentence: str, code: str) -> None:
        self.refusal = status, sentence, code
        super().__init__()

    def _session(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        status, sentence, code = self.refusal
        if code:
            context.set_trailing_metadata(((CODE_METADATA, code),))
        context.abort(status, sentence)
        yield b""


NO_KEY = "no API key was given, expected one in 'authorization: Bearer KEY'"
OTHER_KEY = "the API key is not one of this server's"
HINT = "; give one of the server's keys in INFERWIRE_API_KEY, or as api_key to Core()"


@pytest.mark.parametrize(
    ("sentence", "code", "said"),
    [
        (NO_KEY, "UNAUTHENTICATED", NO_KEY + HINT),
        (OTHER_KEY, "UNAUTHENTICATED", OTHER_KEY + HINT),
        ("401 from a proxy", "", "401 from a proxy" + HINT),
        ("set INFERWIRE_API_KEY", "UNAUTHENTICATED", "set INFERWIRE_API_KEY"),
    ],
)
def test_a_key_that_is_refused_is_said_at_once_and_how_to_give_one(sentence: str, code: str, said: str) -> None:
    with RefusingServer(grpc.StatusCode.UNAUTHENTICATED, sentence, code) as server:
        address = f"127.0.0.1:{server.port}"
        with pytest.raises(ov.Unauthenticated) as caught:
            ov.Core(address, api_key="s3cret").served_model("m")
        assert str(caught.value) == f"the server at {address} refuses the call: {said}"
        assert server.calls.get(timeout=LIMIT_S)[0] == "Session"
        assert server.calls.empty()


def test_what_may_not_be_done_without_a_code_is_told_as_such() -> None:
    with (
        RefusingServer(grpc.StatusCode.PERMISSION_DENIED, "403 from a proxy", "") as server,
        pytest.raises(ov.PermissionDenied, match="does not allow this: 403 from a proxy"),
    ):
        ov.Core(f"127.0.0.1:{server.port}").served_model("m")


def drop_in(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program of openvino's, and what stands before it."""
    command = [sys.executable, "-m", "inferwire", *words]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_a_program_of_openvinos_shows_the_key_of_the_environment(server: ScriptedServer, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import openvino; print(openvino.Core().available_devices)")
    server.unary["ListDevices"] = empty
    done = drop_in("--address", str(address_of(server)), str(tmp_path / "program.py"), INFERWIRE_API_KEY="s3cret")
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
    assert metadata_of(server, "ListDevices")["authorization"] == SHOWN


def test_what_the_environment_has_that_cannot_be_used_is_named_before_the_program_runs() -> None:
    words = ("--address", "grpcs://box", "program.py")
    for done, name in (
        (drop_in(*words, INFERWIRE_API_KEY="s3 cret"), "INFERWIRE_API_KEY"),
        (drop_in(*words, INFERWIRE_ROOT_CERTIFICATES="/nowhere.pem"), "INFERWIRE_ROOT_CERTIFICATES"),
    ):
        assert done.returncode == 2
        assert f"error: {name} " in done.stderr
        assert "s3 cret" not in done.stderr
