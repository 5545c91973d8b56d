"""One process of a server, from its first line in the log to its exit code."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn, cast

import structlog
import uvloop

# Without this, grpcio, by which workers call each other, writes lines of its own into the log. It reads the variable
# when it is imported, which is further down.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

from inferwire_server import logs
from inferwire_server.bugs import logged_failure
from inferwire_server.call_threads import CallThreads
from inferwire_server.engine.backend import Backend
from inferwire_server.errors import ServingError
from inferwire_server.host.control_groups import OWN_GROUPS
from inferwire_server.host.malloc import keep_big_blocks
from inferwire_server.host.open_files import take_all_that_are_allowed
from inferwire_server.log_lines import let_nobody_wait
from inferwire_server.openvino_backend.tokenizers import tokenizers_library
from inferwire_server.server import serve
from inferwire_server.settings import Settings
from inferwire_server.stop import stop_on_signals
from inferwire_server.workers.processes import Workers
from inferwire_server.workers.role import Role

log = structlog.stdlib.get_logger()

_END_S = 2.0
"""How long calls on threads may take that still run when all else has ended."""

_SWITCH_S = 0.0005
"""How long a thread that computes may keep the GIL from the event loop. With Python's own 5 ms, answers beside 64
callers with long JSON take 7 to 14 ms, and with this 2 to 5."""


_GARBAGE_AFTER = 7000
"""After how many new objects Python looks for garbage among them. Its own 700 are what 64 callers have in flight: it
would look at these again and again, for 8 % of the time of a tiny inference by REST."""


def run_worker(settings: Settings, workers: Workers, role: Role) -> NoReturn:
    """Serve as one of a server's processes until a signal, or what its role heeds, stops it; then end the process.

    The process ends at once, whatever still runs on threads: models are freed there, and some calls do not end. The
    interpreter would wait for such a thread, or crash if the thread is inside the runtime.
    """
    for descriptor in (1, 2):
        let_nobody_wait(descriptor)
    logs.configure(settings.log_format, settings.log_level, workers.in_logs)
    keep_big_blocks()
    take_all_that_are_allowed()
    workers.keep_to_share()
    # What was imported stays: looking through it for garbage, under load every second or two, stops all for 50 ms.
    gc.freeze()
    gc.set_threshold(_GARBAGE_AFTER)
    sys.setswitchinterval(_SWITCH_S)
    inference_threads = workers.threads(OWN_GROUPS.cpus)
    if inference_threads is not None:
        log.info("computes with fewer threads than cores, since its CPU time is limited", threads=inference_threads)

    async def until_stopped() -> int:
        code, has_stopped, threads = 1, True, None
        try:
            asyncio.get_running_loop().set_default_executor(threads := CallThreads())
            with stop_on_signals() as stop, role.stops(stop):
                backend = openvino_backend(settings.extensions, inference_threads)
                end = await serve(settings, backend, stop, workers, role)
            code, has_stopped = 0 if end.is_whole else 1, end.has_stopped
        except Exception as error:  # noqa: BLE001 - whatever it is, the process ends, and the log says why
            _log_causes(error)
        if threads is not None:
            await _tell_what_is_left(threads, has_stopped=has_stopped)
        return code

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        os._exit(runner.run(until_stopped()))


def openvino_backend(extensions: Sequence[Path] = (), threads: int | None = None) -> Backend:
    """Import OpenVINO, without the package that reports usage to its makers: a server makes no calls of its own.

    Args:
        extensions: Libraries of further operations.
        threads: How many of the CPU's threads compute; None for as many as there are cores.
    """
    sys.modules.setdefault("openvino_telemetry", cast("ModuleType", None))
    from inferwire_server.openvino_backend.backend import OpenVinoBackend

    return OpenVinoBackend(extensions, tokenizers_library(), threads)


async def _tell_what_is_left(threads: CallThreads, *, has_stopped: bool) -> None:
    """Give calls on threads their time, and log what the process ends without."""
    calls = await threads.close(_END_S)
    if not has_stopped:
        log.warning("an inference or a load did not stop, the process ends without it")
    if calls:
        log.warning("calls did not end, the process ends without them", calls=calls)


def _log_causes(error: Exception) -> None:
    """Log why the server cannot serve: each cause that an operator can mend, and each that is a bug."""
    for cause in _leaves(error):
        if isinstance(cause, ServingError | OSError):
            log.error("cannot serve", reason=str(cause))
        else:
            logged_failure("the server", cause)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors themselves, without the groups that task groups put them in."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error
