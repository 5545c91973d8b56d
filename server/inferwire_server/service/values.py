"""What callers ask for, in no transport's terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from inferwire_proto.element_types import ElementType
from inferwire_server.core.boxes import Box
from inferwire_server.core.sessions import Session
from inferwire_server.core.specs import ModelSpec, PortKey
from inferwire_server.core.tensors import Tensor

_NOTHING: Mapping[int, Any] = MappingProxyType({})


class ServedModel(NamedTuple):
    """A model of the repository; the current version where none is named."""

    name: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class UploadedModel:
    """A model that a session compiled."""

    compiled_id: str
    session: Session | None


Target: TypeAlias = ServedModel | UploadedModel


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor that a session keeps, or a box of it."""

    session: Session
    id: int
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class LentTensor:
    """An input that lies at the beginning of memory that a session's client has lent."""

    session: Session
    memory_id: int
    element_type: ElementType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the shared memory of a key, under a name that callers use for it."""

    name: str
    key: str
    offset: int
    byte_size: int


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """Where a tensor lies in a region. `byte_size` is the size of an input, and the most that an output may take."""

    region: str
    offset: int
    byte_size: int


@dataclass(frozen=True, slots=True)
class SharedTensor:
    """A tensor whose bytes are in shared memory."""

    element_type: ElementType
    shape: tuple[int, ...]
    place: SharedPlace

    @property
    def is_copied(self) -> bool:
        """Whether its job has a copy: strings' lengths are read more than once, and must not change in between."""
        return self.element_type.is_string


@dataclass(frozen=True, slots=True)
class TopClasses:
    """An output as its largest values, with their labels: `count` of each row."""

    count: int


OutputForm: TypeAlias = TopClasses | SharedPlace
"""How an output is given if not as it is: as classes, or written to shared memory."""


@dataclass(frozen=True, slots=True)
class SequenceCall:
    """Which of a caller's sequences on a model an inference belongs to.

    Attributes:
        id: The caller's name for it on the model: unique in its session, or among all callers without a session.
        session: Whose it is; None for a caller without a session.
        is_start: Whether it begins here, from fresh states, whatever ran under this id before.
        is_end: Whether it ends here.
    """

    id: int | str
    session: Session | None = None
    is_start: bool = False
    is_end: bool = False


Inputs: TypeAlias = tuple[tuple[PortKey, Tensor | StoredTensor | LentTensor | SharedTensor], ...]
"""The inputs of an inference, each with a name or a position."""


OutputCheck: TypeAlias = Callable[[ModelSpec, Sequence[int]], None]
"""Looks at wanted outputs of a model, by their positions."""


class Wanted(NamedTuple):
    """What a caller wants to run, without the inputs: one value serves any number of inferences.

    Attributes:
        target: Which model.
        outputs: The wanted outputs; all of them where empty.
        priority: Larger is more urgent; 0 is the model's normal one.
        timeout_s: The time it may take, queue included; None for no limit.
        signature: The signature of the ports that the caller knows; 0 if it does not say.
        keeps: Where outputs are to be kept, by their positions; they are then not part of the result.
        sequence: The sequence whose states it runs on; None for fresh states. Means nothing for a model without states.
        is_profiled: Whether the time of each layer is wanted as well.
        forms: How wanted outputs are given if not as they are, by their positions among `outputs`.
        check_outputs: Refuses wanted outputs that the caller cannot be given; None if it can be given all.
    """

    target: Target
    outputs: tuple[PortKey, ...] = ()
    priority: int = 0
    timeout_s: float | None = None
    signature: int = 0
    sequence: SequenceCall | None = None
    keeps: Mapping[int, StoredTensor] = _NOTHING
    is_profiled: bool = False
    forms: Mapping[int, OutputForm] = _NOTHING
    check_outputs: OutputCheck | None = None


class Inference(NamedTuple):
    """An inference to run.

    Attributes:
        wanted: What is to run on the inputs.
        inputs: Every input of the model, in any order, each by a name or its position.
        executions: How many executions of equal shapes it is: each input has the rows of all, one behind the other.
    """

    wanted: Wanted
    inputs: Inputs
    executions: int = 1
