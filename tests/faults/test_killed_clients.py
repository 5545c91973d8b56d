"""A client's process is killed in the middle of something: what it had asked for does not run on."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.faults.conftest import Server
from tests.waiting import until

from inferwire_server.engine.fake_backend import FakeModel

VICTIM = Path(__file__).with_name("victim.py")


@asynccontextmanager
async def victim(server: Server, deed: str) -> AsyncGenerator[None]:
    """Have a process do something, and kill it at the end."""
    command = [sys.executable, str(VICTIM), deed, str(server.rpc.port), str(server.rest.port)]
    process = await asyncio.to_thread(subprocess.Popen, command, stdin=subprocess.DEVNULL)
    try:
        yield
        assert process.poll() is None, "it ended by itself"
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)


@pytest.mark.parametrize("deed", ["v1_session", "v1_infer", "oip_infer", "oip_stream", "rest_infer"])
async def test_what_a_killed_client_waited_for_is_cancelled(server: Server, model: FakeModel, deed: str) -> None:
    model.gate.close()
    async with victim(server, deed):
        await server.comes_to(running=2, queued=1)
        await asyncio.to_thread(model.gate.wait_held, 2)
    await server.is_whole(cancelled=3)


async def test_the_jobs_of_a_client_that_is_killed_as_it_waits_run_to_their_end(
    server: Server, model: FakeModel
) -> None:
    model.gate.close()
    async with victim(server, "v1_wait"):
        await server.comes_to(running=2, queued=1)
        await asyncio.to_thread(model.gate.wait_held, 2)
    model.gate.open()
    await server.is_whole(finished=3)


async def test_a_client_that_is_killed_as_it_uploads_leaves_no_file(server: Server) -> None:
    store = repr(server.composition.services.uploads._blobs)
    found = re.search(r"0 blobs in (\S+)>", store)
    assert found is not None, store
    folder = Path(found[1])
    async with victim(server, "upload"):
        await until(lambda: any(folder.iterdir()))
    await until(lambda: not any(folder.iterdir()))
    await until(lambda: "0 sessions" in repr(server.composition.services.sessions))
    await server.is_whole()
