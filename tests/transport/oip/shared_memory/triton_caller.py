"""Triton's own clients, with segments of shared memory of their own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from secrets import token_hex
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

PREFIX = "inferwire_test_"
ROW = np.arange(4, dtype=np.float32).reshape(1, 4)
SIZE = 64


@dataclass
class Caller:
    """One of Triton's clients. Its calls block, so they run on threads, each with a connection of its own."""

    interface: ModuleType
    address: str
    handles: list[Any] = field(default_factory=list[Any])

    def segment(self, byte_size: int = SIZE) -> tuple[str, Any]:
        """Make a new segment and give its key."""
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
        """Describe an input that is in a region."""
        made = self.interface.InferInput(name, [1, 4] if name == "x" else [2], datatype)
        made.set_shared_memory(region, byte_size, offset)
        return made

    def wanted(self, name: str, region: str, offset: int = 0, byte_size: int = 16) -> Any:
        """Describe an output that is to be written to a region."""
        made = self.interface.InferRequestedOutput(name)
        made.set_shared_memory(region, byte_size, offset)
        return made

    async def does(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of Triton's client."""

        def call() -> Any:
            with self.interface.InferenceServerClient(self.address) as client:
                return getattr(client, method)(*arguments, **options)

        return await asyncio.to_thread(call)

    async def status(self, name: str = "") -> dict[str, tuple[str, int, int]]:
        """Give key, offset and size of each region."""
        if self.interface is triton_http:
            regions = await self.does("get_system_shared_memory_status", name)
            return {r["name"]: (r["key"], r["offset"], r["byte_size"]) for r in regions}
        status = await self.does("get_system_shared_memory_status", name)
        return {name: (r.key, r.offset, r.byte_size) for name, r in status.regions.items()}

    async def refusal(self, method: str, *arguments: Any, **options: Any) -> str:
        """Make a call that must be refused, and give the error's sentence."""
        with pytest.raises(InferenceServerException) as caught:
            await self.does(method, *arguments, **options)
        return str(caught.value.message())

    async def status_of_refusal(self, method: str, *arguments: Any, **options: Any) -> str:
        """Make a call that must be refused, and give the status as the client reports it."""
        with pytest.raises(InferenceServerException) as caught:
            await self.does(method, *arguments, **options)
        return str(caught.value.status())

    def parameters(self, result: Any, name: str) -> dict[str, Any]:
        """Give an output's parameters in an answer that has nothing else of it."""
        output = result.get_output(name)
        if self.interface is triton_http:
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
    """Copy the content of a segment, since Triton's view would keep the segment open."""
    return shm.get_contents_as_numpy(handle, np.float32, shape, offset).copy()
