"""The lead's side of the other workers: processes that it starts, and that end when it does.

A follower is told what to do on its standard input, which stays open until the follower has ended. On its standard
output it says when it is ready and, when it is asked, that it is there.
"""

from __future__ import annotations

import asyncio
import pickle
import signal
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass, field, replace

import structlog

from inferwire_server.crew import Crew
from inferwire_server.errors import bug
from inferwire_server.log_lines import let_nobody_wait
from inferwire_server.settings import Settings
from inferwire_server.workers.hang_detection import HangLimits, attend, until_ready
from inferwire_server.workers.processes import Workers

log = structlog.stdlib.get_logger()

READY, HERE = b"ready\n", b"here\n"
"""What a follower says: once, that it is ready, and later, whenever it is asked, that it is there."""

WORK, ASK, STOP = b"w", b"a", b"s"
"""What a follower is told after its orders, a byte each: that all are ready, to say that it is there, and to end."""

SIZE_BYTES = 8
"""How many bytes say before its orders how many these have: a pipe may give less at once."""

_MARGIN_S = 10.0
"""How much longer than its grace a follower may take to end."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a follower is told."""

    settings: Settings
    workers: Workers


@dataclass(frozen=True, slots=True)
class _Follower:
    """A running follower, its standard input and its standard output."""

    index: int
    process: Process
    told: asyncio.StreamWriter
    says: asyncio.StreamReader
    is_ready: asyncio.Event = field(default_factory=asyncio.Event)
    has_answered: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, content: bytes) -> None:
        """Tell it something; do nothing if it has ended."""
        if not self.told.is_closing():
            self.told.write(content)

    async def listen(self) -> None:
        """Record what it says, until it has ended."""
        while word := await self.says.readline():
            (self.is_ready if word == READY else self.has_answered).set()

    @property
    def number(self) -> int:
        """Which worker it is, counted from 1."""
        return self.index + 1

    def ask(self) -> None:
        """Ask it whether it is there."""
        self.tell(ASK)

    async def answer(self) -> None:
        """Wait until it says that it is there."""
        await self.has_answered.wait()
        self.has_answered.clear()

    async def ready(self) -> None:
        """Wait until it says that it is ready."""
        await self.is_ready.wait()

    def kill(self) -> None:
        """End it, whatever it does."""
        self.process.kill()


class WorkerEnded(ChildProcessError):
    """A follower has ended by itself, and the server is not whole any more."""


class Followers:
    """The other workers' processes, which run inside `async with`; none if this process is not the lead.

    Their processes start at once, since that takes a while, and wait for their orders.
    """

    def __init__(self, workers: Workers, grace_s: float, limits: HangLimits | None = None) -> None:
        self._workers = workers
        self._grace_s = grace_s
        self._limits = limits or HangLimits()
        self._followers: list[_Follower] = []
        self._have_orders = False

    def __repr__(self) -> str:
        running = sum(follower.process.returncode is None for follower in self._followers)
        return f"<Followers: {running}/{len(self._followers)} running>"

    @property
    def crew(self) -> Crew:
        """The workers, as this process knows them."""
        return self._workers.crew

    async def __aenter__(self) -> Followers:
        crew = self._workers.crew
        try:
            for index in crew.others if crew.is_lead else ():
                self._followers.append(await self._start(index))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.stop()
        await self.have_ended()

    def begin(self, settings: Settings) -> None:
        """Give them their orders: to listen, by these settings, and to take no work yet."""
        self._have_orders = True
        for follower in self._followers:
            workers = replace(self._workers, crew=replace(self._workers.crew, index=follower.index))
            orders = pickle.dumps(Orders(settings, workers))
            follower.tell(len(orders).to_bytes(SIZE_BYTES) + orders)

    async def are_ready(self) -> None:
        """Wait until all accept callers. `attend` has to run meanwhile: it listens to what they say.

        If one ends before, this waits for ever, and `until_one_ends` raises.
        """
        await asyncio.gather(*(until_ready(follower, self._limits) for follower in self._followers))

    def take_work(self) -> None:
        """Have them say that they are ready."""
        self._tell_all(WORK)

    async def attend(self) -> None:
        """Listen to them, and ask them whether they are there: one that hangs is killed, so `until_one_ends` raises."""
        listening = (follower.listen() for follower in self._followers)
        await asyncio.gather(*listening, *(attend(follower, self._limits) for follower in self._followers))

    async def until_one_ends(self) -> None:
        """Wait until a follower ends without being told to; return at once if there are no followers.

        Raises:
            WorkerEnded: A follower has ended.
        """
        waiting = {asyncio.ensure_future(each.process.wait()): each for each in self._followers}
        if not waiting:
            return
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        ended = waiting[done.pop()]
        raise WorkerEnded(f"worker {ended.number} has {_end_of(ended.process)}")

    def stop(self) -> None:
        """Have them shut down, as this process does."""
        if self._have_orders:
            self._tell_all(STOP)
            return
        for follower in self._followers:
            follower.told.close()

    async def have_ended(self) -> None:
        """Wait for the end of followers that were told to stop; kill one that takes much longer than its grace."""
        await asyncio.gather(*map(self._ended, self._followers))

    def _tell_all(self, word: bytes) -> None:
        for follower in self._followers:
            follower.tell(word)

    async def _start(self, index: int) -> _Follower:
        # With -P, nothing is imported from the folder that the operator happens to be in.
        command = (sys.executable, "-P", "-m", "inferwire_server.workers")
        # In a session of its own: signals from a terminal are for the lead, which tells the others.
        try:
            process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, start_new_session=True)
        except OSError as error:
            raise ChildProcessError(f"worker {index + 1} cannot be started: {error.strerror}") from error
        # The event loop has made the new process's standard error blocking again, and this process shares it.
        let_nobody_wait(2)
        told, says = process.stdin, process.stdout
        if told is None or says is None:
            raise bug("a process was started without the pipes it was asked to have")
        return _Follower(index, process, told, says)

    async def _ended(self, follower: _Follower) -> None:
        try:
            async with asyncio.timeout(self._grace_s + _MARGIN_S):
                await follower.process.wait()
        except TimeoutError:
            log.warning("a worker did not end and is killed", number=follower.number)
            follower.kill()
            await follower.process.wait()
        follower.told.close()


def _end_of(process: Process) -> str:
    """Say how a process has ended."""
    code = process.returncode or 0
    return f"ended with exit code {code}" if code >= 0 else f"been ended by {signal.Signals(-code).name}"
