"""What a served version is doing, and what it may do next.

    loading -> warming -> ready -> draining -> unloaded
       |          |       ^   |                   ^
       +---->-----|--->---+   +-> ready           |
       +---->-----+-------------> failed --->-----+

A reload leaves a version ready. An idle version may go from ready to unloaded and back again. A version that
failed, or was unloaded for another reason, starts anew when it is loaded again.
"""

from __future__ import annotations

from enum import Enum

from inferwire_server.errors import bug


class VersionState(Enum):
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
        return self in (VersionState.LOADING, VersionState.WARMING)

    def become(self, state: VersionState) -> VersionState:
        """Give the next state, if it is one that can follow."""
        if state not in _SUCCESSORS[self]:
            raise bug(f"a model that is {self.value} cannot become {state.value}")
        return state


_SUCCESSORS = {
    VersionState.LOADING: {VersionState.WARMING, VersionState.READY, VersionState.FAILED},
    VersionState.WARMING: {VersionState.READY, VersionState.FAILED},
    VersionState.READY: {VersionState.READY, VersionState.DRAINING, VersionState.UNLOADED},
    VersionState.DRAINING: {VersionState.UNLOADED},
    VersionState.UNLOADED: {VersionState.READY, VersionState.DRAINING, VersionState.UNLOADED},
    VersionState.FAILED: {VersionState.UNLOADED},
}
