"""The calls of inferwire.v1 about compiled models and devices: profiles, export, import, queries, extensions."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.busy_gil_thread import occupied
from tests.transport.open_session import Metadata, OpenSession
from tests.transport.rpc.test_grpc_v1 import Client, Models, execution, failure, infer_request
from tests.waiting import until

from inferwire_proto.errors import Code
from inferwire_proto.inferwire.v1 import devices_pb2, inference_pb2, models_pb2, types_pb2
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition
from inferwire_server.settings import Settings

NAME = b"echo"
SHA256 = sha256(NAME).digest()
SOURCE = models_pb2.ModelSource(model_sha256=SHA256, suffix=".onnx")
ECHO = inference_pb2.Target(served="echo")


@pytest.fixture
def models() -> Models:
    return {"echo": FakeModel(echo_spec("echo")), "model": FakeModel(echo_spec("uploaded"))}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(model_repository=tmp_path / "models", allow_uploads=True, allow_imports=True, allow_exports=True)


@pytest.fixture
def client(channel: grpc.aio.Channel) -> Client:
    return Client(channel)


async def export(channel: grpc.aio.Channel, target: inference_pb2.Target, metadata: Any = ()) -> bytes:
    request = models_pb2.ExportRequest(target=target)
    call: Any = channel.unary_stream("/inferwire.v1.ModelService/Export")
    answers = call(request.SerializeToString(), metadata=metadata)
    return b"".join([models_pb2.ExportResponse.FromString(data).chunk async for data in answers])


async def upload(client: Client, metadata: Any, content: bytes = NAME) -> None:
    header = models_pb2.BlobHeader(sha256=sha256(content).digest(), byte_size=len(content))
    messages = [models_pb2.UploadRequest(header=header), models_pb2.UploadRequest(chunk=content)]
    await client("ModelService.Upload", messages, metadata=metadata)


@pytest.mark.parametrize("is_asked_for", [True, False])
async def test_an_execution_that_asks_gets_the_time_of_each_layer(client: Client, is_asked_for: bool) -> None:
    request = infer_request()
    request.execution.profile = is_asked_for
    profile = (await client("InferenceService.Infer", request)).result.profile
    layer = types_pb2.LayerTime(
        node_name="echo",
        node_type="Fake",
        exec_type="python",
        status=types_pb2.LAYER_STATUS_EXECUTED,
        real_time_us=7,
        cpu_time_us=5,
    )
    assert list(profile) == [layer] * is_asked_for


async def test_the_stream_carries_it_with_a_failure_as_well(channel: grpc.aio.Channel, models: Models) -> None:
    def fail(_: object) -> Any:
        raise ServingError(Code.INFERENCE_FAILED, "broken by the test")

    models["echo"].compute = fail
    wanted = execution()
    wanted.ids.append(1)
    wanted.profile = True
    message = inference_pb2.SessionRequest(executions=[wanted], raw=[bytes(16)])
    async with OpenSession(channel) as session:
        await session.stream.write(message.SerializeToString())
        (result,) = inference_pb2.SessionResponse.FromString(await session.stream.read()).results
    assert (result.error.message, result.profile[0].node_name) == ("broken by the test", "echo")


async def test_layers_are_listed_without_a_run(client: Client) -> None:
    request = models_pb2.ListLayersRequest(target=ECHO)
    (layer,) = (await client("ModelService.ListLayers", request)).layers
    assert (layer.node_name, layer.status) == ("echo", types_pb2.LAYER_STATUS_NOT_RUN)
    code, _ = await failure(client("ModelService.ListLayers", models_pb2.ListLayersRequest()))
    assert code == "INVALID_INPUT"


async def test_the_graph_that_a_device_runs_is_described(client: Client) -> None:
    answer = await client("ModelService.GetRuntimeModel", models_pb2.GetRuntimeModelRequest(target=ECHO))
    (node,) = answer.nodes
    assert (answer.model.name, node.port.node_name, node.port.node_type) == ("echo", "echo", "Fake")
    assert (dict(node.info), node.input_count, len(node.outputs)) == ({"primitiveType": "python"}, 1, 1)


async def test_a_model_is_exported_and_imported(client: Client, channel: grpc.aio.Channel, session: Metadata) -> None:
    assert await export(channel, ECHO) == NAME
    await upload(client, session)
    request = models_pb2.ImportRequest(sha256=SHA256, device="CPU")
    imported = await client("ModelService.Import", request, metadata=session)
    assert imported.model.name == "echo"
    target = inference_pb2.Target(compiled=imported.compiled_id)
    assert await export(channel, target, session) == NAME
    code, _ = await failure(export(channel, target))
    assert code == "MODEL_NOT_FOUND", "a session's model is nobody else's"


async def test_an_import_is_of_what_the_session_uploaded(client: Client, session: Metadata) -> None:
    request = models_pb2.ImportRequest(sha256=SHA256, device="CPU")
    code, details = await failure(client("ModelService.Import", request, metadata=session))
    assert (code, details) == ("INVALID_INPUT", f"blob {SHA256.hex()} is not uploaded in this session")


COMPILE = models_pb2.CompileRequest(source=models_pb2.ModelSource(model_sha256=SHA256, suffix=".onnx"), device="CPU")
IMPORT = models_pb2.ImportRequest(sha256=SHA256, device="CPU")


@pytest.mark.parametrize(("method", "request_"), [("Compile", COMPILE), ("Import", IMPORT)])
async def test_a_model_whose_caller_goes_before_it_is_told_of_it_is_freed(
    client: Client, session: Metadata, composition: Composition, method: str, request_: Any
) -> None:
    services, before = composition.services, repr(composition.engine)
    await upload(client, session)
    async with occupied(services.gil_thread) as wait_for:
        call = client(f"ModelService.{method}", request_, metadata=session)
        await wait_for(1)
        assert repr(services.uploads) == "<UploadService: 1 compiled models>"
        call.cancel()
        await until(lambda: repr(services.uploads) == "<UploadService: 0 compiled models>")
    assert repr(composition.engine) == before


async def test_an_import_may_not_set_what_is_the_operators(client: Client, session: Metadata) -> None:
    await upload(client, session)
    request = models_pb2.ImportRequest(sha256=SHA256, device="CPU")
    request.properties["CACHE_DIR"].string_value = "/somewhere"
    code, details = await failure(client("ModelService.Import", request, metadata=session))
    assert (code, details) == ("PERMISSION_DENIED", "property CACHE_DIR is for the server's operator to set")


LONG = "HETERO:" + "CPU," * 300


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        ("DeviceService.GetProperty", devices_pb2.GetPropertyRequest(device=LONG, name="P")),
        ("DeviceService.GetVersions", devices_pb2.GetVersionsRequest(device=LONG)),
        ("DeviceService.CheckProperties", devices_pb2.CheckPropertiesRequest(device=LONG)),
        ("ModelService.Compile", models_pb2.CompileRequest(source=SOURCE, device=LONG)),
        ("ModelService.Query", models_pb2.QueryRequest(source=SOURCE, device=LONG)),
        ("ModelService.Import", models_pb2.ImportRequest(sha256=SHA256, device=LONG)),
    ],
)
async def test_a_device_is_not_looked_for_by_a_long_name(
    client: Client, session: Metadata, call: str, request_: Any
) -> None:
    await upload(client, session)
    assert await failure(client(call, request_, metadata=session)) == (
        "INVALID_INPUT",
        "the device's name has 1207 characters, expected at most 1024",
    )


class TestUnlessAllowed:
    """What the operator has not allowed is refused with the flag that allows it."""

    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(model_repository=tmp_path / "models", allow_uploads=True)

    async def test_imports_are_off(self, client: Client, session: Metadata) -> None:
        await upload(client, session)
        request = models_pb2.ImportRequest(sha256=SHA256, device="CPU")
        code, details = await failure(client("ModelService.Import", request, metadata=session))
        assert code == "PERMISSION_DENIED"
        assert "--allow-imports" in details

    async def test_exports_of_served_models_are_off(self, channel: grpc.aio.Channel) -> None:
        graph = models_pb2.GetRuntimeModelRequest(target=ECHO)
        for call in (export(channel, ECHO), Client(channel)("ModelService.GetRuntimeModel", graph)):
            code, details = await failure(call)
            assert code == "PERMISSION_DENIED"
            assert "'echo'" in details
            assert "--allow-exports" in details

    async def test_a_session_exports_its_own(
        self, client: Client, channel: grpc.aio.Channel, session: Metadata
    ) -> None:
        await upload(client, session)
        source = models_pb2.ModelSource(model_sha256=SHA256, suffix=".onnx")
        request = models_pb2.CompileRequest(source=source, device="CPU")
        compiled = await client("ModelService.Compile", request, metadata=session)
        target = inference_pb2.Target(compiled=compiled.compiled_id)
        assert await export(channel, target, session) == b"uploaded"


async def test_a_query_says_what_runs_where(client: Client, session: Metadata) -> None:
    await upload(client, session)
    request = models_pb2.QueryRequest(source=models_pb2.ModelSource(model_sha256=SHA256, suffix=".onnx"), device="CPU")
    answer = await client("ModelService.Query", request, metadata=session)
    assert dict(answer.devices) == {"x": "CPU"}
    request.properties["LOG_LEVEL"].string_value = "LOG_TRACE"
    code, _ = await failure(client("ModelService.Query", request, metadata=session))
    assert code == "PERMISSION_DENIED"


async def test_the_nodes_of_a_model_are_listed_without_compiling_it(client: Client, session: Metadata) -> None:
    request = models_pb2.ListNodesRequest(source=models_pb2.ModelSource(model_sha256=SHA256, suffix=".onnx"))
    code, details = await failure(client("ModelService.ListNodes", request, metadata=session))
    assert (code, details) == ("INVALID_INPUT", f"blob {SHA256.hex()} is not uploaded in this session")
    await upload(client, session)
    answer = await client("ModelService.ListNodes", request, metadata=session)
    (node,) = answer.nodes
    assert (answer.model.name, node.port.node_name, node.port.node_type) == ("uploaded", "uploaded", "Fake")
    assert (dict(node.info), node.input_count, len(node.outputs)) == ({}, 1, 1)
    assert node.attributes.values["kind"].string_value == "fake"


async def test_what_is_recorded_of_a_model_is_described(client: Client, session: Metadata) -> None:
    await upload(client, session)
    request = models_pb2.DescribePreprocessingRequest(
        source=models_pb2.ModelSource(model_sha256=SHA256, suffix=".onnx"),
        calls=[models_pb2.PreprocessingCall(part="preprocess", method="reverse_channels")],
    )
    answer = await client("ModelService.DescribePreprocessing", request, metadata=session)
    assert answer.text == "uploaded: reverse_channels"
    request.calls.add(part="preprocess", method="custom")
    code, details = await failure(client("ModelService.DescribePreprocessing", request, metadata=session))
    assert (code, details) == (
        "INVALID_INPUT",
        "the preprocessing cannot be read: input().preprocess().custom() is no call of PrePostProcessor",
    )


async def test_properties_are_checked(client: Client) -> None:
    request = devices_pb2.CheckPropertiesRequest(device="CPU")
    request.properties["NUM_STREAMS"].int_value = 2
    answer = await client("DeviceService.CheckProperties", request)
    assert answer.properties["NUM_STREAMS"].int_value == 2
    request.properties["CACHE_DIR"].string_value = "/somewhere"
    code, _ = await failure(client("DeviceService.CheckProperties", request))
    assert code == "PERMISSION_DENIED"


class TestExtensions:
    """A server that has loaded libraries lists their names."""

    @pytest.fixture
    def make_backend(self) -> Callable[[Models], FakeBackend]:
        return lambda models: FakeBackend(models, extensions=("liboperations.so",))

    async def test_they_are_listed(self, client: Client) -> None:
        answer = await client("DeviceService.ListExtensions", devices_pb2.ListExtensionsRequest())
        assert list(answer.names) == ["liboperations.so"]
