"""What a caller does with a model's states beside inferences: reads, writes and resets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from inferwire_server.core.tensors import Tensor


@dataclass(frozen=True, slots=True)
class ReadStates:
    """Read the tensors of the states of these names, in this order; without names those of all, in the spec's order."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteStates:
    """Replace the tensors of states, each by its name."""

    values: tuple[tuple[str, Tensor], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Which states they are."""
        return tuple([name for name, _ in self.values])


@dataclass(frozen=True, slots=True)
class ResetStates:
    """Make the states of these names what they were before the first inference; without names all of them."""

    names: tuple[str, ...] = ()


StateAccess: TypeAlias = ReadStates | WriteStates | ResetStates
