"""What the demo prints, line by line. Computes nothing but medians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TextIO

from inferwire_cli.demo.four_ways import Answer
from inferwire_cli.demo.photos import Guess

NAME_WIDTH = 22
COLUMNS = (("requests", 10), ("at once", 9), ("queue ms", 12), ("inference ms", 14), ("wire ms", 12))


class Report:
    """Writes the demo's progress and its results to a stream."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, doing: str) -> None:
        """Print what the demo does now; `done` ends the line."""
        self._out.write(f"{doing} ... ")
        self._out.flush()

    def done(self, outcome: str) -> None:
        """End the line that `begin` began."""
        self._line(outcome)

    def way(self, name: str, guesses: dict[str, list[Guess]]) -> None:
        """Show the classes that one way found in each photo."""
        self._line(f"\n{name}")
        for photo, best in guesses.items():
            seen = "   ".join(f"{guess.label} {guess.probability:.3f}" for guess in best)
            self._line(f"  {photo:<{NAME_WIDTH - 2}}{seen}")

    def latencies(self, answers_by_way: dict[str, Sequence[Answer]], at_once: Mapping[str, int]) -> None:
        """Show where the time went: the median over each way's requests, with the number that ran at once."""
        heads = "".join(f"{column:>{width}}" for column, width in COLUMNS)
        self._line(f"\n{'median latency of':<{NAME_WIDTH}}{heads}")
        for name, answers in answers_by_way.items():
            numbers = (
                str(len(answers)),
                str(at_once.get(name, 1)),
                f"{median(answer.queue_ms for answer in answers):.2f}",
                f"{median(answer.inference_ms for answer in answers):.2f}",
                f"{median(answer.wire_ms for answer in answers):.2f}",
            )
            columns = "".join(f"{number:>{width}}" for number, (_, width) in zip(numbers, COLUMNS, strict=True))
            self._line(f"{name:<{NAME_WIDTH}}{columns}")
        self._line("Requests under way at once wait for each other: in the queue, or on their way.\n")

    def _line(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()
