"""A model's slots: those that its callers share, one for each bound caller, and the one on the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from inferwire_server.core.layers import LayerTime
from inferwire_server.core.scheduling.job import Transforms, Work
from inferwire_server.core.scheduling.stacks import inference_shapes
from inferwire_server.core.states import StateAccess
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import CompiledModel, Slot
from inferwire_server.engine.brief_slot import THREAD, BriefSlot, Where


class ModelSlots:
    """Slots by number: the shared ones first, then the bound ones, which come and go with their callers.

    Attributes:
        brief: The slot of inferences that run on the loop, whichever slot number they were scheduled for; None where no
            inference can be so brief.
    """

    def __init__(
        self, shared: Sequence[Slot], create_bound: Callable[[], Slot], brief: BriefSlot | None = None
    ) -> None:
        self.brief = brief
        self._shared = shared
        self._create_bound = create_bound
        self._bound: dict[int, BoundSlot] = {}

    @classmethod
    def of(cls, compiled: CompiledModel, count: int) -> ModelSlots:
        """Make the slots of a compiled model, `count` of them for its callers to share."""
        shared = [compiled.create_slot() for _ in range(count)]
        brief = compiled.create_brief_slot()
        create_bound = partial(compiled.create_slot, keeps_states=True)
        return cls(shared, create_bound, None if brief is None else BriefSlot(brief))

    def __repr__(self) -> str:
        return f"<ModelSlots: {len(self._shared)} shared, {len(self._bound)} bound>"

    def __len__(self) -> int:
        """How many are shared."""
        return len(self._shared)

    def __iter__(self) -> Iterator[Slot]:
        yield from self._shared
        yield from self._bound.values()

    def __getitem__(self, number: int) -> Slot:
        if number < len(self._shared):
            return self._shared[number]
        bound = self._bound.get(number)
        if bound is None:
            bound = self._bound[number] = BoundSlot(self._create_bound)
        return bound

    def choose(self, number: int, works: Sequence[Work]) -> tuple[Slot, Where]:
        """Choose the slot for work that was scheduled for this slot number, and what runs it: the loop or a thread."""
        brief = self.brief
        if brief is None or not works:
            return self[number], THREAD
        for work in works:
            if work.is_profiled:
                return self[number], THREAD
        where = brief.begin(inference_shapes(works))
        return self[number] if where is THREAD else brief, where

    def may_go_on(self) -> bool:
        """Tell whether what has begun on the loop may go on there."""
        return self.brief is not None and not self.brief.has_failed

    def end(self, where: Where) -> None:
        """Record that what `choose` sent there has ended."""
        if self.brief is not None:
            self.brief.end(where)

    def take(self, number: int) -> BoundSlot | None:
        """Take a bound slot out, None if it was never used. The next caller of this number gets a new one."""
        return self._bound.pop(number, None)

    def free(self) -> None:
        """Let go of all slots for good, and before that of the compiled model that bound slots are made from."""
        del self._create_bound
        self.brief = None
        self._shared = ()
        self._bound.clear()


class BoundSlot:
    """A slot with its caller's states. It is made by its first job, on that job's thread."""

    def __init__(self, create: Callable[[], Slot]) -> None:
        self._create = create
        self._slot: Slot | None = None

    def __repr__(self) -> str:
        return f"<BoundSlot: {'not used yet' if self._slot is None else repr(self._slot)}>"

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[int], transforms: Transforms = ()) -> tuple[Tensor, ...]:
        """Run an inference on its caller's states."""
        return self._made().run(inputs, outputs, transforms)

    def access(self, states: StateAccess) -> tuple[Tensor, ...]:
        """Read, write or reset its caller's states."""
        return self._made().access(states)

    def cancel(self) -> None:
        """Stop the inference that runs, if the device can."""
        if self._slot is not None:
            self._slot.cancel()

    def profile(self) -> tuple[LayerTime, ...]:
        """Give what each layer took in the last run; nothing if the slot could not be made."""
        return () if self._slot is None else self._slot.profile()

    def free(self) -> None:
        """Free its states for good. They may be large, so this takes too long for the loop."""
        del self._create
        self._slot = None

    def _made(self) -> Slot:
        if self._slot is None:
            self._slot = self._create()
        return self._slot
