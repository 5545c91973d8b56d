"""Tensors that sessions keep on the server, as inputs and outputs of their executions.

A kept tensor's bytes never change: what is written takes their place, so that a job that reads them goes on
reading what it began with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from inferwire_proto.element_types import ElementType
from inferwire_proto.errors import Code
from inferwire_server.core.boxes import cut, paste
from inferwire_server.core.job import Job, JobState
from inferwire_server.core.sessions import Session, session_expired
from inferwire_server.core.specs import check_content
from inferwire_server.core.tensors import Tensor, describe, zero_tensor
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service.lent_memory import LentMemory
from inferwire_server.service.values import LentTensor, StoredTensor


@dataclass(eq=False, slots=True)
class _Shelf:
    """What one session keeps."""

    tensors: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    byte_size: int = 0


class TensorService:
    """Keeps tensors for sessions, each of which may keep so many bytes.

    Attributes:
        lent: The memory that sessions' clients lend.
    """

    def __init__(self, most_bytes: int, lent: LentMemory | None = None) -> None:
        self.lent = LentMemory() if lent is None else lent
        self._most_bytes = most_bytes
        self._shelves: dict[Session, _Shelf] = {}

    def __repr__(self) -> str:
        shelves = self._shelves.values()
        return f"<TensorService: {sum(len(s.tensors) for s in shelves)} tensors of {len(shelves)} sessions>"

    def create(self, stored: StoredTensor, element_type: ElementType, shape: tuple[int, ...]) -> None:
        """Keep a tensor of zeros, in place of what has its name.

        Raises:
            ServingError: TOO_LARGE if its session may not keep so much; INVALID_INPUT for a negative length.
        """
        _check_lengths(element_type, shape)
        # Room is asked for before there is anything of that size; an empty string takes the four bytes of its length.
        self._check_room(stored, 4 * prod(shape) if element_type.is_string else element_type.byte_size(shape))
        self._keep(stored, zero_tensor(element_type, shape))

    def put(self, stored: StoredTensor, tensor: Tensor) -> None:
        """Write a tensor of any shape in place of one that is kept, or a box of it.

        Raises:
            ServingError: TENSOR_NOT_FOUND; INVALID_INPUT if it has another type, does not fit the box, or its bytes
                are no tensor; TOO_LARGE.
        """
        kept = self._kept(stored)
        _check_lengths(tensor.element_type, tensor.shape)
        check_content(f"tensor {stored.id}", tensor)
        if stored.box is not None:
            self._keep(stored, paste(kept, stored.box, tensor))
            return
        if tensor.element_type is not kept.element_type:
            raise invalid_input(
                f"tensor {stored.id} is of type {kept.element_type.name}, "
                f"but what is to be written is {describe(tensor.element_type, tensor.shape)}"
            )
        self._check_room(stored, tensor.byte_size)
        # What came with a message would keep the whole message alive.
        self._keep(stored, tensor.on_its_own())

    def get(self, stored: StoredTensor) -> Tensor:
        """Give a tensor that is kept, or a copy of a box of it.

        Raises:
            ServingError: TENSOR_NOT_FOUND.
        """
        kept = self._kept(stored)
        return kept if stored.box is None else cut(kept, stored.box)

    def tensor(self, given: StoredTensor | LentTensor) -> Tensor:
        """Give a tensor that is kept or lent.

        Raises:
            ServingError: TENSOR_NOT_FOUND if it is not there; INVALID_INPUT for one that does not fit lent memory.
        """
        return self.get(given) if isinstance(given, StoredTensor) else self.lent.tensor(given)

    def keep_outputs(self, job: Job, keeps: Mapping[int, StoredTensor]) -> None:
        """Keep outputs of an ended job, as far as their sessions may keep more; the job then has them no more."""
        if job.state is JobState.FINISHED:
            outputs = zip(job.work.outputs, job.outputs, strict=True)
            job.outputs = tuple(self._shelved(tensor, keeps.get(position)) for position, tensor in outputs)

    def release(self, session: Session, ids: Sequence[int]) -> None:
        """Free tensors of a session; pass over those it has not."""
        shelf = self._shelves.get(session)
        if shelf is None:
            return
        for tensor_id in ids:
            if (tensor := shelf.tensors.pop(tensor_id, None)) is not None:
                shelf.byte_size -= tensor.byte_size

    def end(self, session: Session) -> None:
        """Free all that a session keeps, and give back what it has lent."""
        self._shelves.pop(session, None)
        self.lent.end(session)

    def _shelved(self, tensor: Tensor, stored: StoredTensor | None) -> Tensor:
        if stored is None or stored.session.has_ended or not self._has_room(stored, tensor.byte_size):
            return tensor
        # An output of a batch would keep those of all callers alive.
        self._keep(stored, tensor.on_its_own())
        return tensor._replace(data=b"", stored_as=stored.id)

    def _kept(self, stored: StoredTensor) -> Tensor:
        shelf = self._shelves.get(stored.session)
        tensor = None if shelf is None else shelf.tensors.get(stored.id)
        if tensor is None:
            raise ServingError(
                Code.TENSOR_NOT_FOUND,
                f"tensor {stored.id} is not kept in this session: it never was, or has been released",
            )
        return tensor

    def _keep(self, stored: StoredTensor, tensor: Tensor) -> None:
        if stored.session.has_ended:
            raise session_expired(stored.session.id)
        shelf = self._shelves.setdefault(stored.session, _Shelf())
        before = shelf.tensors.get(stored.id)
        shelf.byte_size += tensor.byte_size - (0 if before is None else before.byte_size)
        shelf.tensors[stored.id] = tensor

    def _has_room(self, stored: StoredTensor, byte_size: int) -> bool:
        shelf = self._shelves.get(stored.session)
        if shelf is None:
            return byte_size <= self._most_bytes
        before = shelf.tensors.get(stored.id)
        return shelf.byte_size - (0 if before is None else before.byte_size) + byte_size <= self._most_bytes

    def _check_room(self, stored: StoredTensor, byte_size: int) -> None:
        if not self._has_room(stored, byte_size):
            shelf = self._shelves.get(stored.session)
            remedy = "free some first, or start" if byte_size <= self._most_bytes else "start"
            raise ServingError(
                Code.TOO_LARGE,
                f"a tensor of {byte_size} bytes is too much for this session, which keeps "
                f"{0 if shelf is None else shelf.byte_size} of at most {self._most_bytes} bytes; "
                f"{remedy} the server with a larger --max-session-tensors-mb",
            )


def _check_lengths(element_type: ElementType, shape: tuple[int, ...]) -> None:
    if min(shape, default=0) < 0:
        raise invalid_input(f"a tensor cannot be {describe(element_type, shape)}, expected lengths from 0 up")
