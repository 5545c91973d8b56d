"""Tensors in shared memory, by Triton's own clients, over gRPC and REST alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from tests.transport.oip.shared_memory.triton_caller import ROW, Caller, content, fill
from tests.waiting import LIMIT_S
from tritonclient.utils import serialize_byte_tensor


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
    assert list(
        result.get_output("y")["shape"] if caller.interface is triton_http else result.get_output("y").shape
    ) == [
        1,
        4,
    ]


async def test_an_output_may_take_the_place_of_an_input(caller: Caller) -> None:
    handle = await caller.region("r")
    fill(handle, ROW)
    await caller.does("infer", "echo", [caller.given("x", "r")], outputs=[caller.wanted("y", "r", 8)])
    np.testing.assert_array_equal(content(handle, 8), ROW)


async def test_tensors_in_messages_are_found_beside_those_that_are_not(caller: Caller) -> None:
    handle = await caller.region("r")
    fill(handle, ROW[0, :2])
    sent = caller.interface.InferInput("b", [2], "FP32")
    sent.set_data_from_numpy(ROW[0, 2:])
    wanted = [caller.wanted("A", "r", 32, 8), caller.interface.InferRequestedOutput("B")]
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


async def test_one_output_has_one_form(caller: Caller) -> None:
    await caller.region("r")
    wanted = caller.interface.InferRequestedOutput("y", class_count=1)
    if caller.interface is triton_http:
        wanted._parameters |= {"shared_memory_region": "r", "shared_memory_byte_size": 16}
    else:
        wanted._output.parameters["shared_memory_region"].string_param = "r"
        wanted._output.parameters["shared_memory_byte_size"].int64_param = 16
    refusal = await caller.refusal("infer", "echo", [caller.given("x", "r")], outputs=[wanted])
    assert refusal == "output 'y' has both 'classification' and 'shared_memory_region', expected one of them"


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
