"""What a served version is doing, and what it may do next.

    loading -> warming -> ready -> draining -> unloaded
       |          |       ^   |                   ^
       +---->-----|--->---+   +-> ready           |
       +---->-----+-------------> failed --->-----+

A reload leaves a version ready. One that is idle may go from ready to unloaded and back again. Whatever is
loaded after it has failed or was unloaded otherwise starts anew.
"""

from __future__ import annotations

from enum import Enum

from inferwire_server.errors import bug


class ModelState(Enum):
    """What a served version is doing."""

    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    DRAINING = "draining"
    UNLOADED = "unloaded"
    FAILED = "failed"

    @property
    def is_passing(self) -> bool:
        """Whether it is on its way to being ready or failed."""
        return self in (ModelState.LOADING, ModelState.WARMING)

    def become(self, state: ModelState) -> ModelState:
        """Give the next state, if it is one that can follow."""
        if state not in _SUCCESSORS[self]:
            raise bug(f"a model that is {self.value} cannot become {state.value}")
        return state


_SUCCESSORS = {
    ModelState.LOADING: {ModelState.WARMING, ModelState.READY, ModelState.FAILED},
    ModelState.WARMING: {ModelState.READY, ModelState.FAILED},
    ModelState.READY: {ModelState.READY, ModelState.DRAINING, ModelState.UNLOADED},
    ModelState.DRAINING: {ModelState.UNLOADED},
    ModelState.UNLOADED: {ModelState.READY, ModelState.DRAINING, ModelState.UNLOADED},
    ModelState.FAILED: {ModelState.UNLOADED},
}
