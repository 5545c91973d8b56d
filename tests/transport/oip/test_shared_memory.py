"""Tensors in shared memory, by Triton's own clients, over gRPC and REST alike."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from types import ModuleType
from typing import Any

import httpx
import numpy as np
import pytest
import pytest_asyncio
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.specs import Dimension, ModelSpec, PortSpec
from inferwire_server.engine.fake_backend import FakeModel, Gate, echo_spec
from inferwire_server.server import Composition
from inferwire_server.settings import Settings
from inferwire_server.transport.http.server import http_server
from inferwire_server.transport.rest.app import create_app
from inferwire_server.transport.rpc.grpc_server import GrpcServer

PREFIX = "inferwire_test_"
ROW = np.arange(4, dtype=np.float32).reshape(1, 4)
SIZE = 64
LIMIT_S = 30.0

VICTIM = """
import sys
import tritonclient.{face} as face, tritonclient.utils.shared_memory as shm
region = shm.create_shared_memory_region("r", sys.argv[2], 64)
client = face.InferenceServerClient(sys.argv[1])
client.register_system_shared_memory("r", sys.argv[2], 64)
given = face.InferInput("x", [1, 4], "FP32")
given.set_shared_memory("r", 16)
wanted = face.InferRequestedOutput("y")
wanted.set_shared_memory("r", 16, 16)
client.infer("slow", [given], outputs=[wanted])
"""
"""A client that dies while its tensors are in use."""


def port(name: str, type_name: str) -> PortSpec:
    return PortSpec(frozenset({name}), name, BY_NAME[type_name], (Dimension(2, 2),), name, "Parameter")


def of_twos(name: str, type_name: str, *inputs: str) -> FakeModel:
    """Give two elements of each input back, as an output of its name in capitals."""
    ports = tuple(port(name, type_name) for name in inputs)
    return FakeModel(ModelSpec(name, ports, tuple(port(name.upper(), type_name) for name in inputs)))


@pytest.fixture
def models() -> dict[str, FakeModel]:
    slow = FakeModel(echo_spec("slow"), gate=Gate(is_open=False), optimal_slots=1)
    pair = of_twos("pair", "f32", "a", "b")
    return {"echo": FakeModel(echo_spec("echo")), "slow": slow, "pair": pair, "words": of_twos("words", "string", "w")}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(model_repository=tmp_path / "models", shared_memory=(PREFIX,))


@dataclass
class Caller:
    """One of Triton's clients. What it does blocks: it is done on threads, each with a connection of its own."""

    face: ModuleType
    address: str
    handles: list[Any] = field(default_factory=list[Any])

    def segment(self, byte_size: int = SIZE) -> tuple[str, Any]:
        """Make a segment of one's own and give its key."""
        key = f"/{PREFIX}{token_hex(4)}"
        handle = shm.create_shared_memory_region(key, key, byte_size)
        self.handles.append(handle)
        return key, handle

    async def region(self, name: str, byte_size: int = SIZE) -> Any:
        """Make a segment and register it."""
        key, handle = self.segment(byte_size)
        await self.does("register_system_shared_memory", name, key, byte_size)
        return handle

    def given(self, name: str, region: str, offset: int = 0, byte_size: int = 16, datatype: str = "FP32") -> Any:
        """Name where an input lies."""
        made = self.face.InferInput(name, [1, 4] if name == "x" else [2], datatype)
        made.set_shared_memory(region, byte_size, offset)
        return made

    def wanted(self, name: str, region: str, offset: int = 0, byte_size: int = 16) -> Any:
        """Name where an output is to lie."""
        made = self.face.InferRequestedOutput(name)
        made.set_shared_memory(region, byte_size, offset)
        return made

    async def does(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Do what Triton's client can."""

        def call() -> Any:
            with self.face.InferenceServerClient(self.address) as client:
                return getattr(client, method)(*arguments, **options)

        return await asyncio.to_thread(call)

    async def status(self, name: str = "") -> dict[str, tuple[str, int, int]]:
        """Give key, offset and size of each region."""
        if self.face is triton_http:
            regions = await self.does("get_system_shared_memory_status", name)
            return {r["name"]: (r["key"], r["offset"], r["byte_size"]) for r in regions}
        status = await self.does("get_system_shared_memory_status", name)
        return {name: (r.key, r.offset, r.byte_size) for name, r in status.regions.items()}

    async def refusal(self, method: str, *arguments: Any, **options: Any) -> str:
        """Do what must be refused, and give the sentence."""
        with pytest.raises(InferenceServerException) as caught:
            await self.does(method, *arguments, **options)
        return str(caught.value.message())

    def parameters(self, result: Any, name: str) -> dict[str, Any]:
        """Give an output's parameters in an answer that has nothing else of it."""
        output = result.get_output(name)
        if self.face is triton_http:
            assert "data" not in output
            assert output["parameters"].pop("binary_data_size") == 0
            return output["parameters"]
        response = result.get_response()
        assert response.raw_output_contents[list(response.outputs).index(output)] == b""
        return {
            key: getattr(value, str(value.WhichOneof("parameter_choice"))) for key, value in output.parameters.items()
        }


def fill(handle: Any, array: Any, offset: int = 0) -> None:
    shm.set_shared_memory_region(handle, [array], offset)


def content(handle: Any, offset: int = 0, shape: tuple[int, ...] = (1, 4)) -> Any:
    """Copy what is there: Triton's view would keep the segment open."""
    return shm.get_contents_as_numpy(handle, np.float32, shape, offset).copy()


def is_mapped(key: str) -> bool:
    return f"/dev/shm{key}" in Path("/proc/self/maps").read_text()


def is_served(key: str) -> bool:
    """Whether the server looks at a segment that this process, which it is in, has made as well."""
    return Path("/proc/self/maps").read_text().count(f"/dev/shm{key}") > 1


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.to_thread(int)


@pytest_asyncio.fixture
async def addresses(composition: Composition, grpc_server: GrpcServer) -> AsyncIterator[dict[ModuleType, str]]:
    """Where both faces of one server listen."""
    app = create_app(composition.services, composition.metrics.text)
    async with http_server(app, "127.0.0.1", 0) as rest:
        yield {triton_grpc: f"127.0.0.1:{grpc_server.port}", triton_http: f"127.0.0.1:{rest.port}"}


@pytest.fixture(params=[triton_grpc, triton_http], ids=["grpc", "http"])
def face(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


@pytest.fixture
def new_caller(addresses: dict[ModuleType, str]) -> Iterator[Callable[[ModuleType], Caller]]:
    """Make callers, and put away what they leave."""
    made: list[Caller] = []

    def make(face: ModuleType) -> Caller:
        made.append(Caller(face, addresses[face]))
        return made[-1]

    yield make
    for caller in made:
        for handle in caller.handles:
            shm.destroy_shared_memory_region(handle)


@pytest.fixture
def caller(new_caller: Callable[[ModuleType], Caller], face: ModuleType) -> Caller:
    return new_caller(face)


@pytest.mark.parametrize(("offset", "room"), [(0, 16), (3, 29)], ids=["aligned", "unaligned"])
async def test_a_tensor_is_read_and_written_where_it_lies(caller: Caller, offset: int, room: int) -> None:
    source, target = await caller.region("in"), await caller.region("out")
    fill(source, ROW, offset)
    given, wanted = caller.given("x", "in", offset), caller.wanted("y", "out", offset + 1, room)
    result = await caller.does("infer", "echo", [given], outputs=[wanted])
    np.testing.assert_array_equal(content(target, offset + 1), ROW)
    assert caller.parameters(result, "y") == {
        "shared_memory_region": "out",
        "shared_memory_offset": offset + 1,
        "shared_memory_byte_size": 16,
    }
    assert list(result.get_output("y")["shape"] if caller.face is triton_http else result.get_output("y").shape) == [
        1,
        4,
    ]


async def test_the_extension_is_listed(caller: Caller) -> None:
    metadata = await caller.does("get_server_metadata")
    extensions = metadata["extensions"] if caller.face is triton_http else metadata.extensions
    assert "system_shared_memory" in extensions


async def test_an_output_may_take_the_place_of_an_input(caller: Caller) -> None:
    handle = await caller.region("r")
    fill(handle, ROW)
    await caller.does("infer", "echo", [caller.given("x", "r")], outputs=[caller.wanted("y", "r", 8)])
    np.testing.assert_array_equal(content(handle, 8), ROW)


async def test_tensors_in_messages_are_found_beside_those_that_are_not(caller: Caller) -> None:
    handle = await caller.region("r")
    fill(handle, ROW[0, :2])
    sent = caller.face.InferInput("b", [2], "FP32")
    sent.set_data_from_numpy(ROW[0, 2:])
    wanted = [caller.wanted("A", "r", 32, 8), caller.face.InferRequestedOutput("B")]
    for inputs in ([caller.given("a", "r", 0, 8), sent], [sent, caller.given("a", "r", 0, 8)]):
        result = await caller.does("infer", "pair", inputs, outputs=wanted)
        np.testing.assert_array_equal(content(handle, 32, (2,)), ROW[0, :2])
        np.testing.assert_array_equal(result.as_numpy("B"), ROW[0, 2:])


async def test_strings_lie_there_with_their_lengths(caller: Caller) -> None:
    handle = await caller.region("r")
    packed = serialize_byte_tensor(np.array([b"caf\xc3\xa9", b""], object))
    assert packed is not None
    shm.set_shared_memory_region(handle, [packed])
    size = len(packed.item())
    given = caller.given("w", "r", 0, size, "BYTES")
    result = await caller.does("infer", "words", [given], outputs=[caller.wanted("W", "r", 20, 40)])
    assert caller.parameters(result, "W")["shared_memory_byte_size"] == size
    assert shm.get_contents_as_numpy(handle, np.object_, [2], 20).tolist() == [b"caf\xc3\xa9", b""]


async def test_regions_are_listed_and_taken_away(caller: Caller) -> None:
    key, _ = caller.segment()
    assert await caller.status() == {}
    await caller.does("register_system_shared_memory", "a", key, 40, offset=5)
    await caller.does("register_system_shared_memory", "b", key, 64)
    assert await caller.status() == {"a": (key, 5, 40), "b": (key, 0, 64)}
    assert await caller.status("b") == {"b": (key, 0, 64)}
    await caller.does("unregister_system_shared_memory", "a")
    await caller.does("unregister_system_shared_memory", "a")
    assert await caller.status() == {"b": (key, 0, 64)}
    assert await caller.refusal("get_system_shared_memory_status", "a") == (
        "Unable to find system shared memory region: 'a'"
    )
    await caller.does("unregister_system_shared_memory")
    assert await caller.status() == {}
    assert not is_served(key)


async def test_a_region_is_everybody_s(caller: Caller, new_caller: Callable[[ModuleType], Caller]) -> None:
    handle = await caller.region("r")
    fill(handle, ROW)
    for other in (new_caller(triton_grpc), new_caller(triton_http)):
        await other.does("infer", "echo", [other.given("x", "r")], outputs=[other.wanted("y", "r", 32)])
        np.testing.assert_array_equal(content(handle, 32), ROW)
        fill(handle, ROW * 0, 32)
        key, _ = other.segment()
        refusal = await other.refusal("register_system_shared_memory", "r", key, SIZE)
        assert refusal == "shared memory region 'r' already in manager: unregister it first"


async def test_one_that_is_taken_away_stays_until_its_jobs_have_ended(
    caller: Caller, models: dict[str, FakeModel]
) -> None:
    handle = await caller.region("r")
    (key,) = [key for key, _, _ in (await caller.status()).values()]
    fill(handle, ROW)
    given, wanted = caller.given("x", "r"), caller.wanted("y", "r", 32)
    call = asyncio.ensure_future(caller.does("infer", "slow", [given], outputs=[wanted]))
    await asyncio.to_thread(models["slow"].gate.wait_held, 1)
    await caller.does("unregister_system_shared_memory", "r")
    assert await caller.status() == {}
    assert is_served(key)
    assert "Unable to find shared memory region: 'r'" in await caller.refusal("infer", "echo", [given])
    models["slow"].gate.open()
    await call
    np.testing.assert_array_equal(content(handle, 32), ROW)
    await until(lambda: not is_served(key))


async def test_a_caller_that_dies_leaves_its_region_and_nothing_else(
    addresses: dict[ModuleType, str], caller: Caller, models: dict[str, FakeModel]
) -> None:
    key = f"/{PREFIX}{token_hex(4)}"
    script = VICTIM.format(face=caller.face.__name__.rpartition(".")[2])
    command = [sys.executable, "-c", script, addresses[caller.face], key]
    process = await asyncio.to_thread(subprocess.Popen, command, stderr=subprocess.DEVNULL)
    try:
        await asyncio.to_thread(models["slow"].gate.wait_held, 1, LIMIT_S)
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)
    await asyncio.to_thread(models["slow"].gate.wait_held, 0, LIMIT_S)
    assert list(await caller.status()) == ["r"]
    result = await caller.does("infer", "echo", [caller.given("x", "r")])
    assert result.as_numpy("y").tolist() == [[0, 0, 0, 0]]
    assert is_mapped(key)
    await caller.does("unregister_system_shared_memory")
    await until(lambda: not is_mapped(key))


@pytest.mark.parametrize(
    ("given", "wanted", "sentence"),
    [
        (("nope",), ("r",), "Unable to find shared memory region: 'nope'"),
        (("r",), ("nope",), "Unable to find shared memory region: 'nope'"),
        (
            ("r", 49),
            ("r",),
            "Invalid offset + byte size for shared memory region: 'r' has 64 bytes, offset 49 and byte size 16",
        ),
        (("r",), ("r", 60, 5), "Invalid offset + byte size for shared memory region: 'r' has 64 bytes, offset 60"),
        (("r", 2**63 - 1), ("r",), "Invalid offset + byte size for shared memory region: 'r'"),
        (("r", 0, 15), ("r",), "input 'x' of model 'echo' has 15 bytes, expected 16 for f32[1,4]"),
        (("r", 0, 17), ("r",), "input 'x' of model 'echo' has 17 bytes, expected 16 for f32[1,4]"),
        (
            ("r",),
            ("r", 0, 15),
            "output 'y' of model 'echo' takes 16 bytes, but has 15 in shared memory region 'r'",
        ),
        (("",), ("r",), "parameter 'shared_memory_region' of input 'x' is '', expected a region's name"),
        (("r", -1), ("r",), "parameter 'shared_memory_offset' of input 'x' is -1, expected a whole number from 0"),
        (("r",), ("r", 0, -1), "parameter 'shared_memory_byte_size' of output 'y' is -1, expected a whole number"),
    ],
)
async def test_a_place_that_is_none_is_refused(
    caller: Caller, given: tuple[Any, ...], wanted: tuple[Any, ...], sentence: str
) -> None:
    handle = await caller.region("r")
    fill(handle, ROW)
    good = [caller.given("x", "r")], {"outputs": [caller.wanted("y", "r", 16)]}
    refusal = await caller.refusal("infer", "echo", [caller.given("x", *given)], outputs=[caller.wanted("y", *wanted)])
    assert refusal.startswith(sentence)
    np.testing.assert_array_equal(content(handle), ROW)
    await caller.does("infer", "echo", good[0], **good[1])
    np.testing.assert_array_equal(content(handle, 16), ROW)


@pytest.mark.parametrize(("place", "other"), [(("r", 0, 8), ("r", 7, 8)), (("r", 16, 8), ("s", 0, 8))])
async def test_outputs_may_not_overlap(caller: Caller, place: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    key, handle = caller.segment()
    await caller.does("register_system_shared_memory", "r", key, 60)
    await caller.does("register_system_shared_memory", "s", key, 40, offset=20)
    fill(handle, ROW)
    inputs = [caller.given("a", "r", 0, 8), caller.given("b", "r", 0, 8)]
    outputs = [caller.wanted("A", *place), caller.wanted("B", *other)]
    refusal = await caller.refusal("infer", "pair", inputs, outputs=outputs)
    assert refusal.startswith(f"outputs overlap in shared memory key '{key[1:]}', at ")
    outputs = [caller.wanted("A", "r", 16, 8), caller.wanted("B", "s", 4, 8)]
    await caller.does("infer", "pair", inputs, outputs=outputs)
    assert content(handle, 16).tolist() == [[0, 1, 0, 1]]


@pytest.mark.parametrize(
    ("key", "byte_size", "sentence"),
    [
        ("/{key}", SIZE + 1, "shared memory key '/{key}' has 64 bytes, expected 65 or more for offset 0"),
        ("/{key}", 0, "shared memory key '/{key}' has offset 0 and byte size 0"),
        (f"/{PREFIX}nowhere", 1, f"Unable to open shared memory region: '/{PREFIX}nowhere': No such file"),
        ("/secret", 1, "shared memory key '/secret' begins with none of the prefixes"),
        (f"/../shm/{PREFIX}x", 1, f"shared memory key '/../shm/{PREFIX}x' is no key"),
        ("", 1, "shared memory key '' is no key"),
    ],
)
async def test_what_cannot_be_registered_is_not(caller: Caller, key: str, byte_size: int, sentence: str) -> None:
    own, _ = caller.segment()
    key, sentence = key.replace("{key}", own[1:]), sentence.replace("{key}", own[1:])
    assert (await caller.refusal("register_system_shared_memory", "r", key, byte_size)).startswith(sentence)
    assert await caller.status() == {}


async def test_a_segment_that_was_cut_shorter_is_not_touched(caller: Caller) -> None:
    await caller.region("r")
    (key,) = [key for key, _, _ in (await caller.status()).values()]
    os.truncate(f"/dev/shm{key}", 8)
    refusal = await caller.refusal("infer", "echo", [caller.given("x", "r")])
    assert refusal == f"shared memory key '{key}' has 8 bytes by now, expected the 64 it was registered with"
    os.truncate(f"/dev/shm{key}", SIZE)
    assert (await caller.does("infer", "echo", [caller.given("x", "r")])).as_numpy("y").tolist() == [[0, 0, 0, 0]]


async def test_one_output_has_one_form(caller: Caller) -> None:
    await caller.region("r")
    wanted = caller.face.InferRequestedOutput("y", class_count=1)
    if caller.face is triton_http:
        wanted._parameters |= {"shared_memory_region": "r", "shared_memory_byte_size": 16}
    else:
        wanted._output.parameters["shared_memory_region"].string_param = "r"
        wanted._output.parameters["shared_memory_byte_size"].int64_param = 16
    refusal = await caller.refusal("infer", "echo", [caller.given("x", "r")], outputs=[wanted])
    assert refusal == "output 'y' has both 'classification' and 'shared_memory_region', expected one of them"


async def test_there_is_no_memory_of_cuda_s(caller: Caller) -> None:
    await caller.does("unregister_cuda_shared_memory")
    await caller.does("unregister_cuda_shared_memory", "c")
    status = await caller.does("get_cuda_shared_memory_status")
    assert not (status if caller.face is triton_http else status.regions)
    refusal = await caller.refusal("register_cuda_shared_memory", "c", b"aGFuZGxl", 0, 64)
    assert refusal.startswith("CUDA shared memory region 'c' cannot be registered")


class TestOff:
    """A server whose operator has not allowed it."""

    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(model_repository=tmp_path / "models")

    async def test_everything_is_refused(self, caller: Caller) -> None:
        off = "this server does not offer shared memory: send tensors' bytes, or start it with --shared-memory"
        key, _ = caller.segment()
        sent = caller.face.InferInput("x", [1, 4], "FP32")
        sent.set_data_from_numpy(ROW)
        assert await caller.refusal("register_system_shared_memory", "r", key, SIZE) == off
        assert await caller.refusal("get_system_shared_memory_status") == off
        assert await caller.refusal("unregister_system_shared_memory") == off
        assert await caller.refusal("infer", "echo", [caller.given("x", "r")]) == off
        assert await caller.refusal("infer", "echo", [sent], outputs=[caller.wanted("y", "r")]) == off
        await caller.does("unregister_cuda_shared_memory")


async def test_on_a_stream_they_lie_there_too(new_caller: Callable[[ModuleType], Caller]) -> None:
    caller = new_caller(triton_grpc)
    handle = await caller.region("r")
    fill(handle, ROW)
    answers: asyncio.Queue[Any] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def note(result: Any, error: Any) -> None:
        loop.call_soon_threadsafe(answers.put_nowait, error or result)

    client: Any = await asyncio.to_thread(triton_grpc.InferenceServerClient, caller.address)
    client.start_stream(note)
    client.async_stream_infer("echo", [caller.given("x", "nope")])
    client.async_stream_infer("echo", [caller.given("x", "r")], outputs=[caller.wanted("y", "r", 32)])
    async with asyncio.timeout(LIMIT_S):
        assert "Unable to find shared memory region" in str(await answers.get())
        assert caller.parameters(await answers.get(), "y")["shared_memory_region"] == "r"
    np.testing.assert_array_equal(content(handle, 32), ROW)
    await asyncio.to_thread(client.close)


async def test_a_job_may_use_it(new_caller: Callable[[ModuleType], Caller], addresses: dict[ModuleType, str]) -> None:
    handle = await new_caller(triton_http).region("r")
    fill(handle, ROW)
    place = {"shared_memory_region": "r", "shared_memory_byte_size": 16}
    given = {"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": place}
    wanted = {"name": "y", "parameters": place | {"shared_memory_offset": 32}}
    async with httpx.AsyncClient(base_url=f"http://{addresses[triton_http]}", timeout=LIMIT_S) as client:
        started = await client.post("/inferwire/v1/models/echo/jobs", json={"inputs": [given], "outputs": [wanted]})
        job = started.headers["location"]
        assert (await client.get(job, params={"wait_s": LIMIT_S})).json()["state"] == "finished"
        (output,) = (await client.get(f"{job}/result")).json()["outputs"]
    parameters = {**place, "shared_memory_offset": 32, "binary_data_size": 0}
    assert output == {"name": "y", "datatype": "FP32", "shape": [1, 4], "parameters": parameters}
    np.testing.assert_array_equal(content(handle, 32), ROW)


REGISTRATIONS: list[tuple[bytes, str]] = [
    (b"{}", "the 'key' of shared memory region 'r' is null, expected a string"),
    (b'{"key":7}', "the 'key' of shared memory region 'r' is a number"),
    (b'{"key":"k","byte_size":1.5}', "the 'byte_size' of shared memory region 'r' is 1.5, expected a number of bytes"),
    (b'{"key":"k","byte_size":true}', "the 'byte_size' of shared memory region 'r' is a boolean"),
    (b'{"key":"k","byte_size":1,"offset":"0"}', "the 'offset' of shared memory region 'r' is a string"),
    (b'{"key":"k","byte_size":1,"offset":-1}', "shared memory key 'k' has offset -1 and byte size 1"),
    (b'{"key":"k"}', "shared memory key 'k' has offset 0 and byte size 0"),
    (b'{"key":"k","byte_size":null,"offset":null}', "shared memory key 'k' has offset 0 and byte size 0"),
    (b"key=k&byte_size=1", "the body is no JSON"),
    (b"[]", "the body is no JSON object"),
]


@pytest.mark.parametrize("name", ["a/b", "/a", "a/", "a/status", "unregister/", "a b", "100%", "%2F", "na\u00efve?#"])
async def test_a_region_may_be_called_anything(caller: Caller, name: str) -> None:
    other = await caller.region("a")
    handle = await caller.region(name)
    fill(handle, ROW)
    assert set(await caller.status()) == {"a", name}
    assert set(await caller.status(name)) == {name}
    await caller.does("infer", "echo", [caller.given("x", name)], outputs=[caller.wanted("y", "a", 32)])
    np.testing.assert_array_equal(content(other, 32), ROW)
    await caller.does("unregister_system_shared_memory", name)
    assert set(await caller.status()) == {"a"}


async def test_encoded_slashes_are_slashes(
    new_caller: Callable[[ModuleType], Caller], addresses: dict[ModuleType, str]
) -> None:
    caller = new_caller(triton_http)
    await caller.region("a/b")
    async with httpx.AsyncClient(timeout=LIMIT_S, base_url=f"http://{addresses[triton_http]}") as client:
        ((region,)) = (await client.get("/v2/systemsharedmemory/region/a%2Fb/status")).json()
        assert region["name"] == "a/b"
        assert (await client.post("/v2/systemsharedmemory/region/a%2fb/unregister")).status_code == 200
    assert await caller.status() == {}


@pytest.mark.parametrize(("method", "last"), [("POST", "register"), ("GET", "status"), ("POST", "unregister")])
async def test_a_path_with_an_empty_name_is_refused_and_does_not_mean_all(
    new_caller: Callable[[ModuleType], Caller], addresses: dict[ModuleType, str], method: str, last: str
) -> None:
    caller = new_caller(triton_http)
    await caller.region("r")
    async with httpx.AsyncClient(timeout=LIMIT_S, base_url=f"http://{addresses[triton_http]}") as client:
        refused = await client.request(method, f"/v2/systemsharedmemory/region//{last}")
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_INPUT")
    assert "names no region" in refused.json()["error"]
    assert set(await caller.status()) == {"r"}


@pytest.mark.parametrize(("body", "sentence"), REGISTRATIONS)
async def test_a_body_that_registers_nothing_is_refused(
    addresses: dict[ModuleType, str], body: bytes, sentence: str
) -> None:
    url = f"http://{addresses[triton_http]}/v2/systemsharedmemory/region/r/register"
    async with httpx.AsyncClient(timeout=LIMIT_S) as client:
        response = await client.post(url, content=body)
    assert response.status_code == 400
    assert response.json()["error"].startswith(sentence)


async def test_the_content_type_is_not_looked_at(
    new_caller: Callable[[ModuleType], Caller], addresses: dict[ModuleType, str]
) -> None:
    caller = new_caller(triton_http)
    key, _ = caller.segment()
    url = f"http://{addresses[triton_http]}/v2/systemsharedmemory/region/r/register"
    headers = {"content-type": "application/x-www-form-urlencoded"}
    async with httpx.AsyncClient(timeout=LIMIT_S) as client:
        response = await client.post(url, content=f'{{"key":"{key}","byte_size":64}}', headers=headers)
    assert response.status_code == 200, response.text
    assert await caller.status() == {"r": (key, 0, 64)}


@pytest.mark.parametrize("beside", ["data", "binary_data_size"])
async def test_json_gives_a_tensor_once(addresses: dict[ModuleType, str], beside: str) -> None:
    place = {"shared_memory_region": "r", "shared_memory_byte_size": 16}
    given = {"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": place}
    given |= {"data": [0, 1, 2, 3]} if beside == "data" else {"parameters": place | {"binary_data_size": 16}}
    async with httpx.AsyncClient(timeout=LIMIT_S) as client:
        response = await client.post(f"http://{addresses[triton_http]}/v2/models/echo/infer", json={"inputs": [given]})
    assert response.status_code == 400
    assert response.json()["error"] == (
        f"input 'x' has both '{beside}' and 'shared_memory_region', expected one of them"
    )
