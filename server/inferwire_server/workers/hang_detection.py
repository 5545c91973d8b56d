"""Detects workers that hang: the lead asks each again and again, and kills one that does not answer for very long.

A process that hangs keeps its sockets, and the system goes on giving it its share of all connections.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

import structlog

log = structlog.stdlib.get_logger()


@dataclass(frozen=True, slots=True)
class HangLimits:
    """How long a worker may be silent, counted in rounds and not by a clock.

    If the whole machine or container stands still for a while, so does the lead, and that counts as one round at most.
    Models are loaded on threads, so nothing that a worker does keeps it from answering for long: the longest wait is
    many times what a machine under load has been seen to need.

    Attributes:
        round_s: How long a round is, in seconds: of waiting for an answer, and of leaving a worker in peace after one.
        until_told: After how many rounds of silence the log says so.
        until_ended: After how many the worker is ended.
        late_s: For how long it may load after this process has, in seconds, until the log says so.
    """

    round_s: float = 5.0
    until_told: int = 4
    until_ended: int = 24
    late_s: float = 60.0


class Asked(Protocol):
    """A worker that can be asked whether it is there."""

    @property
    def number(self) -> int:
        """Which one it is, counted from 1."""
        ...

    def ask(self) -> None:
        """Ask it; it answers each time, as soon as its event loop comes to it."""
        ...

    async def answer(self) -> None:
        """Wait for its answer; for ever if it has ended."""
        ...

    async def ready(self) -> None:
        """Wait until it is ready to work; for ever if it has ended."""
        ...

    def kill(self) -> None:
        """End it, whatever it does."""
        ...


async def until_ready(worker: Asked, limits: HangLimits) -> None:
    """Wait until a worker is ready, for as long as its models take to load; log it if that is long after the lead's."""
    try:
        async with asyncio.timeout(limits.late_s):
            await worker.ready()
    except TimeoutError:
        log.warning("a worker is still not ready", number=worker.number, waited_s=limits.late_s)
        await worker.ready()


async def attend(worker: Asked, limits: HangLimits) -> None:
    """Ask a worker again and again; log when it is silent and when it answers again; return once it had to be ended."""
    while True:
        worker.ask()
        if not await _answers(worker, limits):
            log.error("a worker hangs and is killed", number=worker.number, silent_s=_s(limits, limits.until_ended))
            worker.kill()
            return
        await asyncio.sleep(limits.round_s)


async def _answers(worker: Asked, limits: HangLimits) -> bool:
    """Wait for the answer to a question, and say whether it has come in time."""
    for silent in range(limits.until_ended):
        if silent == limits.until_told:
            log.warning("a worker does not answer", number=worker.number, silent_s=_s(limits, silent))
        try:
            async with asyncio.timeout(limits.round_s):
                await worker.answer()
        except TimeoutError:
            continue
        if silent >= limits.until_told:
            log.info("a worker answers again", number=worker.number, silent_s=_s(limits, silent))
        return True
    return False


def _s(limits: HangLimits, rounds: int) -> float:
    return rounds * limits.round_s
