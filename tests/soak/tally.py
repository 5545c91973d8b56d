"""What the clients of a soak met, by deed and outcome; an unexpected outcome ends the soak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from threading import Event, Lock

OK = "ok"


@dataclass
class Tally:
    """Counts of all clients together.

    Attributes:
        stop: Set when the clients are to end.
        surprises: What happened that should not have.
    """

    stop: Event = field(default_factory=Event)
    surprises: list[str] = field(default_factory=list[str])
    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    _lock: Lock = field(default_factory=Lock)

    def add(self, deed: str, outcome: str, expected: Collection[str] = (OK, "QUEUE_FULL")) -> None:
        """Count an outcome; one that is not expected is a surprise."""
        with self._lock:
            self.counts[deed, outcome] += 1
        if outcome not in expected:
            self.surprise(f"{deed}: {outcome}, expected {' or '.join(expected)}")

    def surprise(self, sentence: str) -> None:
        """Record what should not have happened; that is enough to end the soak."""
        with self._lock:
            self.surprises.append(sentence)
        self.stop.set()

    @property
    def answered(self) -> int:
        """How many calls have ended, well or not."""
        return self.counts.total()

    def rows(self) -> dict[str, Counter[str]]:
        """Give the outcomes of each deed."""
        with self._lock:
            rows: dict[str, Counter[str]] = {}
            for (deed, outcome), count in sorted(self.counts.items()):
                rows.setdefault(deed, Counter())[outcome] += count
            return rows
