"""Regions of shared memory: registered, listed and taken away, whatever becomes of who made them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from types import ModuleType

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tests.transport.oip.shared_memory.triton_caller import PREFIX, ROW, SIZE, Caller, content, fill
from tests.waiting import LIMIT_S, until

from inferwire_server.engine.fake_backend import FakeModel
from inferwire_server.settings import Settings

VICTIM = """
import sys
import tritonclient.{interface} as interface, tritonclient.utils.shared_memory as shm
region = shm.create_shared_memory_region("r", sys.argv[2], 64)
client = interface.InferenceServerClient(sys.argv[1])
client.register_system_shared_memory("r", sys.argv[2], 64)
given = interface.InferInput("x", [1, 4], "FP32")
given.set_shared_memory("r", 16)
wanted = interface.InferRequestedOutput("y")
wanted.set_shared_memory("r", 16, 16)
client.infer("slow", [given], outputs=[wanted])
"""
"""A client that dies while its tensors are in use."""


def is_mapped(key: str) -> bool:
    return f"/dev/shm{key}" in Path("/proc/self/maps").read_text()


def is_served(key: str) -> bool:
    """Whether the server looks at a segment that this process, which it is in, has made as well."""
    return Path("/proc/self/maps").read_text().count(f"/dev/shm{key}") > 1


async def test_the_extension_is_listed(caller: Caller) -> None:
    metadata = await caller.does("get_server_metadata")
    extensions = metadata["extensions"] if caller.interface is triton_http else metadata.extensions
    assert "system_shared_memory" in extensions


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


async def test_a_region_that_nobody_registered_is_not_found(caller: Caller) -> None:
    not_found = "404" if caller.interface is triton_http else "StatusCode.NOT_FOUND"
    assert await caller.status_of_refusal("get_system_shared_memory_status", "a") == not_found
    assert await caller.status_of_refusal("infer", "echo", [caller.given("x", "a")]) == not_found


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
    script = VICTIM.format(interface=caller.interface.__name__.rpartition(".")[2])
    command = [sys.executable, "-c", script, addresses[caller.interface], key]
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


async def test_there_is_no_memory_of_cuda_s(caller: Caller) -> None:
    await caller.does("unregister_cuda_shared_memory")
    await caller.does("unregister_cuda_shared_memory", "c")
    status = await caller.does("get_cuda_shared_memory_status")
    assert not (status if caller.interface is triton_http else status.regions)
    named = await caller.refusal("get_cuda_shared_memory_status", "c")
    assert named == "Unable to find cuda shared memory region: 'c'"
    refusal = await caller.refusal("register_cuda_shared_memory", "c", b"aGFuZGxl", 0, 64)
    assert refusal.startswith("CUDA shared memory region 'c' cannot be registered")


class TestOff:
    """A server whose operator has not allowed it."""

    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(model_repository=tmp_path / "models")

    async def test_whatever_needs_a_region_is_refused_and_there_is_none_to_take_away(self, caller: Caller) -> None:
        off = "this server does not offer shared memory: send tensors' bytes, or start it with --shared-memory"
        key, _ = caller.segment()
        sent = caller.interface.InferInput("x", [1, 4], "FP32")
        sent.set_data_from_numpy(ROW)
        assert await caller.refusal("register_system_shared_memory", "r", key, SIZE) == off
        assert await caller.status() == {}
        await caller.does("unregister_system_shared_memory")
        assert await caller.refusal("infer", "echo", [caller.given("x", "r")]) == off
        assert await caller.refusal("infer", "echo", [sent], outputs=[caller.wanted("y", "r")]) == off
        await caller.does("unregister_cuda_shared_memory")


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
