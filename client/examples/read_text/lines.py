"""Finds lines of text in the mask of a text detector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SMALLEST_SIDE = 4
GROWTH = 1.6
"""A detector marks the core of each line: by how much of its area over its perimeter the line is larger."""


@dataclass(frozen=True, slots=True)
class Box:
    """Part of a picture: from `left`, `top` up to, not with, `right`, `bottom`, in pixels."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        return self.right - self.left

    @property
    def height(self) -> int:
        return self.bottom - self.top

    def grown(self, width: int, height: int) -> Box:
        """Give the whole line around its core, within a picture of a size."""
        margin = round(self.width * self.height * GROWTH / (2 * (self.width + self.height)))
        return Box(
            max(0, self.left - margin),
            max(0, self.top - margin),
            min(width, self.right + margin),
            min(height, self.bottom + margin),
        )

    def joined(self, other: Box) -> Box:
        """Give the smallest box around both."""
        return Box(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )


def find_lines(mask: np.ndarray[Any, Any]) -> list[Box]:
    """Give the boxes around the patches of a mask [height, width], from top to bottom.

    A patch is made of runs, the marked stretches of each row, that touch one another.
    """
    patches = Patches()
    above: list[tuple[int, int, int]] = []
    for row, line in enumerate(mask):
        edges = np.flatnonzero(np.diff(line != 0, prepend=False, append=False)).reshape(-1, 2)
        here: list[tuple[int, int, int]] = []
        for start, end in edges.tolist():
            patch = patches.add(Box(start, row, end, row + 1))
            for other_start, other_end, other in above:
                if start < other_end and other_start < end:
                    patches.join(patch, other)
            here.append((start, end, patch))
        above = here
    found = (box for box in patches.boxes() if min(box.width, box.height) >= SMALLEST_SIDE)
    return sorted(found, key=lambda box: (box.top, box.left))


class Patches:
    """Boxes by number, and which of them turned out to be parts of one."""

    def __init__(self) -> None:
        self._boxes: list[Box] = []
        self._part_of: list[int] = []

    def add(self, box: Box) -> int:
        """Take a box and give its number."""
        self._boxes.append(box)
        self._part_of.append(len(self._part_of))
        return self._part_of[-1]

    def join(self, one: int, other: int) -> None:
        """Note that two numbers are of one patch."""
        first, second = sorted((self._whole(one), self._whole(other)))
        if first != second:
            self._part_of[second] = first
            self._boxes[first] = self._boxes[first].joined(self._boxes[second])

    def boxes(self) -> list[Box]:
        """Give a box for each patch."""
        return [box for number, box in enumerate(self._boxes) if self._part_of[number] == number]

    def _whole(self, number: int) -> int:
        while self._part_of[number] != number:
            number = self._part_of[number]
        return number
