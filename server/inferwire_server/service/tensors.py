"""Tensors that sessions keep on the server, as inputs and outputs of their executions.

A kept tensor's bytes never change: a write puts others in their place, so that a job that reads them goes on
reading what it began with. What was replaced or released counts as kept until the last job that reads it has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, ParamSpec, TypeVar

from inferwire_proto.element_types import ElementType
from inferwire_proto.errors import Code
from inferwire_server.core.boxes import Box, cut, paste, view
from inferwire_server.core.scheduling.job import FINISHED, Job
from inferwire_server.core.sessions import Session, session_expired
from inferwire_server.core.taken import Taken
from inferwire_server.core.tensor_checks import check_content, check_shape
from inferwire_server.core.tensors import LARGE, Tensor, describe, zero_tensor, zeros_byte_size
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service.lent_memory import LentMemory
from inferwire_server.service.values import LentTensor, StoredTensor

P = ParamSpec("P")
T = TypeVar("T")

_BYTES_OF_A_TENSOR, _BYTES_OF_A_LENGTH = 512, 40
"""What a kept tensor counts for besides its data, and each length of its shape: empty tensors take memory, too."""


class TensorLimits(NamedTuple):
    """How many bytes one session may keep, and all sessions together."""

    of_session: int
    of_all: int


@dataclass(eq=False, slots=True)
class _Kept:
    """A tensor that counts as a session's, and how many hold it: the session's shelf, and each job that reads it."""

    tensor: Tensor
    shelf: _Shelf
    holders: int = 1

    @property
    def byte_size(self) -> int:
        """How many bytes it counts for."""
        return _taken(self.tensor.byte_size, self.tensor.shape)


@dataclass(eq=False, slots=True)
class _Shelf:
    """What one session keeps by its ids, and how many bytes that is with what only jobs hold."""

    tensors: dict[int, _Kept] = field(default_factory=dict[int, _Kept])
    byte_size: int = 0


class TensorService:
    """Keeps tensors for sessions, within the limits of each and of all together.

    Attributes:
        lent: The memory that sessions' clients lend.
    """

    def __init__(self, limits: TensorLimits, lent: LentMemory | None = None) -> None:
        self.lent = LentMemory() if lent is None else lent
        self._limits = limits
        self._shelves: dict[Session, _Shelf] = {}
        self._byte_size = 0
        self._pasting = asyncio.Lock()

    def __repr__(self) -> str:
        shelves = self._shelves.values()
        return f"<TensorService: {sum(len(s.tensors) for s in shelves)} tensors of {len(shelves)} sessions>"

    @property
    def taken(self) -> Taken:
        """How much of what all sessions together may keep is taken."""
        return Taken(self._byte_size, self._limits.of_all)

    def create(self, stored: StoredTensor, element_type: ElementType, shape: tuple[int, ...]) -> None:
        """Keep a tensor of zeros, in place of what has its id.

        Raises:
            ServingError: TOO_LARGE if its session may not keep so much; INVALID_INPUT for a shape that no tensor has.
        """
        check_shape(f"tensor {stored.id}", shape)
        # Checked before memory of that size is taken.
        self._check_room(stored, zeros_byte_size(element_type, shape), shape)
        self._keep(stored, zero_tensor(element_type, shape))

    async def put(self, stored: StoredTensor, tensor: Tensor) -> None:
        """Write a tensor of any shape in place of one that is kept, or a box of it; large ones on a thread.

        Raises:
            ServingError: TENSOR_NOT_FOUND; INVALID_INPUT if it has another type, does not fit the box, or its bytes
                are no tensor; TOO_LARGE.
        """
        self._kept(stored)
        check_shape(f"tensor {stored.id}", tensor.shape)
        await _on_thread_if(tensor.byte_size > LARGE, check_content, f"tensor {stored.id}", tensor)
        if stored.box is not None:
            await self._paste(stored, stored.box, tensor)
            return
        self._check_takes(stored, tensor)
        # Bytes that are a part of a message would keep the whole message in memory.
        own = await _on_thread_if(tensor.byte_size > LARGE, tensor.on_its_own)
        self._check_takes(stored, tensor)
        self._keep(stored, own)

    async def read(self, stored: StoredTensor) -> Tensor:
        """Give a tensor that is kept, or a box of it; of a large one on a thread.

        Raises:
            ServingError: TENSOR_NOT_FOUND; INVALID_INPUT for a box that is not in it.
        """
        kept = self._kept(stored).tensor
        return kept if stored.box is None else await _on_thread_if(kept.byte_size > LARGE, cut, kept, stored.box)

    def get(self, stored: StoredTensor) -> Tensor:
        """Give a tensor that is kept, or a box of it, without a copy: in one piece or not.

        Raises:
            ServingError: TENSOR_NOT_FOUND; INVALID_INPUT for a box that is not in it.
        """
        kept = self._kept(stored).tensor
        return kept if stored.box is None else view(kept, stored.box)

    def tensor(self, given: StoredTensor | LentTensor) -> Tensor:
        """Give a tensor that is kept or lent.

        Raises:
            ServingError: TENSOR_NOT_FOUND if it is not there; INVALID_INPUT for one that does not fit lent memory.
        """
        return self.get(given) if isinstance(given, StoredTensor) else self.lent.tensor(given)

    @contextmanager
    def read_until_end(
        self, read: Sequence[StoredTensor], on_end: Callable[[Job], Any]
    ) -> Generator[Callable[[Job], Any]]:
        """Count tensors as kept until the job has ended that is submitted inside, with the `on_end` that this gives.

        Raises:
            ServingError: TENSOR_NOT_FOUND.
        """
        held = [self._kept(stored) for stored in read]
        for kept in held:
            kept.holders += 1

        def let_go() -> None:
            while held:
                self._let_go(held.pop())

        def let_go_and_tell(job: Job) -> None:
            let_go()
            on_end(job)

        try:
            yield let_go_and_tell
        except BaseException:
            let_go()
            raise

    def keep_outputs(self, job: Job, keeps: Mapping[int, StoredTensor]) -> None:
        """Keep outputs of an ended job, as far as their sessions may keep more. The job has their data no more then."""
        if job.state is FINISHED:
            outputs = zip(job.work.outputs, job.outputs, strict=True)
            job.keep(tuple([self._shelved(tensor, keeps.get(position)) for position, tensor in outputs]))

    def release(self, session: Session, ids: Sequence[int]) -> None:
        """Free tensors of a session; pass over those that it does not have."""
        shelf = self._shelves.get(session)
        if shelf is None:
            return
        for tensor_id in ids:
            if (kept := shelf.tensors.pop(tensor_id, None)) is not None:
                self._let_go(kept)

    def end(self, session: Session) -> None:
        """Free all that a session keeps, and give back what it has lent."""
        if (shelf := self._shelves.pop(session, None)) is not None:
            for kept in shelf.tensors.values():
                self._let_go(kept)
        self.lent.end(session)

    async def _paste(self, stored: StoredTensor, box: Box, part: Tensor) -> None:
        """Write a box. Large tensors are written one at a time, because each is in memory twice meanwhile."""
        kept = self._kept(stored).tensor
        if kept.byte_size <= LARGE:
            self._check_room(stored, kept.byte_size, kept.shape)
            self._keep(stored, paste(kept, box, part))
            return
        async with self._pasting:
            pasted = None
            # Once more if another write has replaced the tensor meanwhile.
            while pasted is None or kept is not self._kept(stored).tensor:
                kept = self._kept(stored).tensor
                self._check_room(stored, kept.byte_size, kept.shape)
                pasted = await asyncio.to_thread(paste, kept, box, part)
            self._check_room(stored, pasted.byte_size, pasted.shape)
            self._keep(stored, pasted)

    def _check_takes(self, stored: StoredTensor, tensor: Tensor) -> None:
        """Refuse a tensor that cannot take the place of the one that is kept."""
        kept = self._kept(stored).tensor
        if tensor.element_type is not kept.element_type:
            raise invalid_input(
                f"tensor {stored.id} is of type {kept.element_type.name}, "
                f"but what is to be written is {describe(tensor.element_type, tensor.shape)}"
            )
        self._check_room(stored, tensor.byte_size, tensor.shape)

    def _shelved(self, tensor: Tensor, stored: StoredTensor | None) -> Tensor:
        if stored is None or stored.session.has_ended or self._lacks(stored, tensor.byte_size, tensor.shape):
            return tensor
        self._keep(stored, tensor)
        return tensor._replace(data=b"", stored_as=stored.id)

    def _kept(self, stored: StoredTensor) -> _Kept:
        shelf = self._shelves.get(stored.session)
        kept = None if shelf is None else shelf.tensors.get(stored.id)
        if kept is None:
            raise ServingError(
                Code.TENSOR_NOT_FOUND,
                f"tensor {stored.id} is not kept in this session: it never was, or has been released",
            )
        return kept

    def _keep(self, stored: StoredTensor, tensor: Tensor) -> None:
        if stored.session.has_ended:
            raise session_expired(stored.session.id)
        shelf = self._shelves.setdefault(stored.session, _Shelf())
        if (replaced := shelf.tensors.get(stored.id)) is not None:
            self._let_go(replaced)
        shelf.tensors[stored.id] = kept = _Kept(tensor, shelf)
        self._count(shelf, kept.byte_size)

    def _let_go(self, kept: _Kept) -> None:
        """Record that the shelf, or a job, holds a tensor no more."""
        kept.holders -= 1
        if not kept.holders:
            self._count(kept.shelf, -kept.byte_size)

    def _count(self, shelf: _Shelf, byte_size: int) -> None:
        shelf.byte_size += byte_size
        self._byte_size += byte_size

    def _lacks(self, stored: StoredTensor, byte_size: int, shape: tuple[int, ...]) -> str:
        """Say why a tensor does not fit in place of the one that has its id; empty if it fits."""
        shelf = self._shelves.get(stored.session)
        kept, replaced = (0, None) if shelf is None else (shelf.byte_size, shelf.tensors.get(stored.id))
        taken = _taken(byte_size, shape)
        # What a job reads stays in memory when it is replaced.
        more = taken - (0 if replaced is None or replaced.holders > 1 else replaced.byte_size)
        limits = self._limits
        if kept + more > limits.of_session:
            where, most, flag = f"this session, which keeps {kept}", limits.of_session, "--max-session-tensors-mb"
        elif self._byte_size + more > limits.of_all:
            where, most, flag = f"this server, which keeps {self._byte_size}", limits.of_all, "--max-tensors-mb"
        else:
            return ""
        remedy = "free some first, or start" if taken <= most else "start"
        return (
            f"a tensor of {byte_size} bytes is too much for {where} of at most {most} bytes; "
            f"{remedy} the server with a larger {flag}"
        )

    def _check_room(self, stored: StoredTensor, byte_size: int, shape: tuple[int, ...]) -> None:
        if lack := self._lacks(stored, byte_size, shape):
            raise ServingError(Code.TOO_LARGE, lack)


async def _on_thread_if(is_large: bool, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Make a call on a thread if its tensor is large, else on the loop."""
    return await asyncio.to_thread(call, *args, **kwargs) if is_large else call(*args, **kwargs)


def _taken(byte_size: int, shape: tuple[int, ...]) -> int:
    """Say how many bytes a kept tensor counts for."""
    return byte_size + _BYTES_OF_A_TENSOR + _BYTES_OF_A_LENGTH * len(shape)
