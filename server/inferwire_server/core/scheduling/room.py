"""How much may wait for a device, or of one model, and the error that a caller gets if there is no room."""

from __future__ import annotations

from typing import NamedTuple

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Work
from inferwire_server.errors import ServingError

RETRY_AFTER_S = 1.0
"""After how long a caller that finds the queue full is to try again."""

_MEBIBYTE = 1 << 20


class Room(NamedTuple):
    """How many executions may wait, and how many bytes their inputs may take."""

    executions: int
    carried_bytes: float

    def fits(self, work: Work, waiting: int, carried_bytes: int) -> bool:
        """Whether work fits behind what waits. Work that carries more bytes than may wait fits if nothing waits."""
        if waiting + work.executions > self.executions:
            return False
        return not waiting or carried_bytes + work.carried_bytes <= self.carried_bytes

    def part(self, of_all: float) -> Room:
        """Give a part of this room, with room for one execution at least if the whole has any."""
        executions = min(self.executions, max(1, int(self.executions * of_all)))
        return Room(executions, self.carried_bytes * of_all)

    def refusal(self, device: str, work: Work, waiting: int, carried_bytes: int) -> ServingError:
        """Say which of the two limits keeps work from fitting behind what waits."""
        if waiting + work.executions > self.executions:
            why = f"{waiting} jobs are waiting, at most {self.executions} may (--queue-capacity)"
        else:
            taken, most = carried_bytes / _MEBIBYTE, self.carried_bytes / _MEBIBYTE
            why = f"the inputs of waiting jobs take {taken:.4g} MiB, at most {most:.4g} may be taken (--max-queued-mb)"
        sentence = f"{device}'s queue is full: {why}; try again in {RETRY_AFTER_S:g} s"
        return ServingError(Code.QUEUE_FULL, sentence, retry_after_s=RETRY_AFTER_S)
