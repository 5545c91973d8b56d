"""One process of a server, from its first line in the log to its exit code."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import cast

import structlog
import uvloop

# Else a line of gRPC's own stands in the log for each TLS handshake that fails, and anybody can have many fail. gRPC
# reads this as it is imported, which is further down.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

from inferwire_server import logs
from inferwire_server.engine.backend import Backend
from inferwire_server.engine.tokenizers import tokenizers_library
from inferwire_server.errors import ServingError
from inferwire_server.malloc import keep_big_blocks
from inferwire_server.server import serve
from inferwire_server.settings import Settings
from inferwire_server.stop import stop_on_signals
from inferwire_server.workers.crews import Workers
from inferwire_server.workers.followers import WorkerEnded

log = structlog.stdlib.get_logger()


async def _at_once() -> None:
    """Wait for nobody."""


def run_worker(
    settings: Settings,
    workers: Workers,
    may_work: Callable[[], Awaitable[None]] = _at_once,
    stopping: Callable[[asyncio.Event], AbstractContextManager[None]] = nullcontext,
) -> int:
    """Serve as one of a server's processes, until a signal or what is `stopping` it sets the event it is given."""
    logs.configure(settings)
    workers.name_in_logs()
    keep_big_blocks()
    workers.keep_to_share()
    # What was imported stays: to look through it for garbage, under load every second or two, stops everyone for 50 ms.
    gc.freeze()

    async def until_stopped() -> bool:
        with stop_on_signals() as stop, stopping(stop):
            return await serve(settings, openvino_backend(settings.extensions), stop, workers, may_work)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            has_stopped = runner.run(until_stopped())
    except WorkerEnded:
        return 1
    except Exception as error:
        refusals = tuple(_leaves(error))
        if not all(isinstance(refusal, ServingError | OSError) for refusal in refusals):
            raise
        for refusal in refusals:
            log.error("cannot serve", reason=str(refusal))
        return 1
    if not has_stopped:
        # A thread that is inside the runtime as the interpreter ends brings the process down in ways of its own.
        log.warning("an inference or a load did not stop, the process ends without it")
        os._exit(0)
    return 0


def openvino_backend(extensions: Sequence[Path] = ()) -> Backend:
    """Bring OpenVINO in, without the package that reports its use to its makers: a server calls nobody."""
    sys.modules.setdefault("openvino_telemetry", cast("ModuleType", None))
    from inferwire_server.engine.openvino_backend import OpenVinoBackend

    return OpenVinoBackend(extensions, tokenizers_library())


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Give what was raised, without the task groups it came through."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error
