"""Names that openvino had until 2023, for the programs that still use them."""

from __future__ import annotations

from inferwire.callers import warn


def warn_of(name: str, instead: str) -> None:
    """Warn whoever uses a member of a class by an old name."""
    warn(f"{name} is deprecated; use {instead} instead", DeprecationWarning)


def shares_inputs(share_inputs: bool, shared_memory: bool | None) -> bool:
    """Read what `share_inputs` was before there was `share_outputs`."""
    if shared_memory is None:
        return share_inputs
    warn_of("shared_memory", "share_inputs")
    return shared_memory
