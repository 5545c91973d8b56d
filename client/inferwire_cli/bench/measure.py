"""Spends a budget on a way to a server, and shows the progress in the terminal."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from inferwire_cli.bench.load import Budget, Spend, Tally, Way
from inferwire_cli.terminal import CommandError, new_console

REFRESH_S = 0.1
END_LIMIT_S = 10.0
"""How long an interrupted load waits for what is in flight."""


class AllFailedError(CommandError):
    """Every inference failed at once; the message is the first one's."""


class Spending(threading.Thread):
    """A thread that spends a budget, with the outcomes so far."""

    def __init__(self, spend: Spend, budget: Budget) -> None:
        super().__init__(daemon=True)
        self._spend = spend
        self.budget = budget
        self.tally = Tally()
        self.error: Exception | None = None
        self._has_ended = threading.Event()
        self._ended_s: float | None = None

    @property
    def elapsed_s(self) -> float:
        """How long it took, or has taken so far."""
        return self.budget.elapsed_s if self._ended_s is None else self._ended_s

    @property
    def per_second(self) -> float:
        """Answered inferences in a second."""
        return len(self.tally.samples) / self.elapsed_s if self.elapsed_s else 0.0

    def run(self) -> None:
        """Spend it."""
        try:
            self._spend(self.budget, self.tally)
        except Exception as error:  # noqa: BLE001 - raised or counted by the thread that waits
            self.error = error
        finally:
            self._ended_s = self.budget.elapsed_s
            self._has_ended.set()

    def wait(self, limit_s: float | None = None) -> bool:
        """Wait for the end, and say whether it has come: a join that Ctrl-C cuts off is the end to Python 3.11."""
        return self._has_ended.wait(limit_s)


def measure(way: Way, places: int, begin: Callable[[], Budget], title: str) -> tuple[Spending, bool]:
    """Spend a budget, which begins when the way is open and warm; give the outcome, and if Ctrl-C ended it early.

    Raises:
        AllFailedError: If every inference failed at once, since then it would always fail.
        Exception: The error that ended it before any answer, as `ServerUnavailable` if no server answers.
    """
    with way() as spend:
        _warm_up(spend, places)
        return _measure(spend, begin(), title)


def _warm_up(spend: Spend, places: int) -> None:
    """Run as many inferences as there are places, uncounted."""
    tally = Tally()
    spend(Budget(places, None), tally)
    if tally.failures and not tally.samples:
        raise AllFailedError(next(iter(tally.failures)))


def _measure(spend: Spend, budget: Budget, title: str) -> tuple[Spending, bool]:
    spending, is_interrupted = Spending(spend, budget), False
    try:
        spending.start()
        _follow(spending, title)
    except KeyboardInterrupt:
        is_interrupted = True
        budget.stop()
        spending.wait(END_LIMIT_S)
    if spending.error is not None:
        if not spending.tally.samples:
            raise spending.error
        spending.tally.fail(f"ended early, after {spending.elapsed_s:.1f} s: {spending.error}")
    return spending, is_interrupted


def _follow(spending: Spending, title: str) -> None:
    """Show the progress until the end; nothing without a terminal."""
    console = new_console(stderr=True)
    if not console.is_terminal:
        spending.wait()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=1.0, rate="")
        while not spending.wait(REFRESH_S):
            progress.update(task, completed=spending.budget.done, rate=f"{spending.per_second:,.0f}/s")
