"""Jobs that wait for the same thing: urgent ones first, then callers in turn, each one's in the order they came."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, KeysView
from heapq import heapify, heappop, heappush, heapreplace
from typing import TypeAlias

from inferwire_server.core.scheduling.caller_turns import CallerTurns, Turn
from inferwire_server.core.scheduling.job import Job

Rank: TypeAlias = tuple[int, int, int]
"""Where a waiting job stands, less is sooner: its urgency, since when it is its caller's turn, and its own arrival."""


class JobQueue:
    """Waiting jobs in order of rank.

    A job ranks by its arrival or, if that was later, by when the last job of its caller was taken. So callers take
    turns, and none makes another wait for more than one of its jobs at a time. Jobs of a higher priority go before all
    others, and have turns of their own. A caller that does not take its answers has no turn: its jobs are held back.

    Ranks of different queues can be compared if their turns count the same arrivals. If queues share the turns, a
    caller has one turn in all of them together.

    Attributes:
        rows: How many rows the waiting jobs have together.
        executions: How many executions they are.
        carried_bytes: How many bytes they keep in memory.
    """

    def __init__(self, turns: CallerTurns | None = None) -> None:
        self._turns = CallerTurns() if turns is None else turns
        # The first job of each turn, by its rank or an earlier, lower one. The entry of a removed job stays for a
        # while.
        self._heap: list[tuple[Rank, Job, Turn]] = []
        # What was taken off the heap because it is held back.
        self._held: list[tuple[Rank, Job, Turn]] = []
        # The jobs behind the first one of a turn, with their arrivals.
        self._behind: dict[Turn, OrderedDict[Job, int] | None] = {}
        self._rows: dict[Job, int] = {}
        self.rows = 0
        self.executions = 0
        self.carried_bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Job]:
        return iter(tuple(self._rows))

    @property
    def turns(self) -> KeysView[Turn]:
        """The turns for which jobs wait."""
        return self._behind.keys()

    def push(self, job: Job, rows: int = 1) -> None:
        """Let a job wait behind all others of its caller that are as urgent."""
        self._rows[job] = rows
        self.rows += rows
        self.executions += job.work.executions
        self.carried_bytes += job.work.carried_bytes
        turn, arrival = self._turns.of(job), next(self._turns.arrivals)
        if turn not in self._behind:
            self._behind[turn] = None
            self._line_up(turn, job, arrival)
        elif (behind := self._behind[turn]) is None:
            self._behind[turn] = OrderedDict({job: arrival})
        else:
            behind[job] = arrival

    @property
    def first_rank(self) -> Rank | None:
        """The rank of the next job; None if none may start. It has the job's priority, also if jobs go by arrival."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    @property
    def first(self) -> Job | None:
        """The job that is next; None if none may start."""
        self._settle()
        return self._heap[0][1] if self._heap else None

    @property
    def oldest(self) -> Job:
        """The job that has waited longest.

        Raises:
            IndexError: If none waits.
        """
        for job in self._rows:
            return job
        raise IndexError("no job waits")

    @property
    def first_deadline(self) -> float | None:
        """When the first of the waiting jobs expires; None where none does."""
        return min((job.deadline for job in self._rows if job.deadline is not None), default=None)

    def pop(self) -> Job:
        """Take the next job. Its caller's other jobs now rank behind all waiting jobs that are as urgent.

        Raises:
            IndexError: If none may start.
        """
        self._settle()
        _, job, turn = heappop(self._heap)
        self._turns.serve(job, turn)
        self._forget(job, turn)
        return job

    def remove(self, job: Job) -> None:
        """Take a job out of the middle.

        Raises:
            KeyError: If it does not wait here.
        """
        self._forget(job, self._turns.of(job))
        if len(self._heap) > 2 * len(self._rows) + 8:
            self._heap = [entry for entry in self._heap if entry[1] in self._rows]
            heapify(self._heap)

    def look_again(self) -> None:
        """Let jobs that were held back have their turns if the answers before them are taken now."""
        for entry in self._held:
            heappush(self._heap, entry)
        self._held.clear()

    def _line_up(self, turn: Turn, job: Job, arrival: int) -> None:
        """Give the first job of a turn its rank."""
        heappush(self._heap, ((-job.priority, self._turns.since(turn, arrival), arrival), job, turn))

    def _forget(self, job: Job, turn: Turn) -> None:
        self.rows -= self._rows.pop(job)
        self.executions -= job.work.executions
        self.carried_bytes -= job.work.carried_bytes
        behind = self._behind[turn]
        if not behind:
            del self._behind[turn]
        elif job in behind:
            del behind[job]
        else:
            self._line_up(turn, *behind.popitem(last=False))

    def _settle(self) -> None:
        """Bring the next job to the top of the heap: ranks grow when a caller is served in another queue.

        Jobs that are held back leave the heap until `look_again`.
        """
        heap = self._heap
        while heap:
            (urgency, since, arrival), job, turn = heap[0]
            if job not in self._rows:
                heappop(heap)
            elif (later := self._turns.since(turn, since)) > since:
                heapreplace(heap, ((urgency, later, arrival), job, turn))
            elif job.is_held_back:
                self._held.append(heappop(heap))
                self._turns.hold_back = True
            else:
                return
