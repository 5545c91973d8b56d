"""A model's batching options, as flags, settings and callers give them, and how they are combined.

A caller that can give only compile properties gives the options as properties, which OpenVINO does not see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from inferwire_proto.properties import MAX_BATCH, OWN_PREFIX, Properties, PropertyValue
from inferwire_server.core.limits import LARGEST
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.errors import ServingError, UnfitSetting, invalid_input

MAX_BATCH_DELAY_US = "INFERWIRE_MAX_BATCH_DELAY_US"
PREFERRED_BATCHES = "INFERWIRE_PREFERRED_BATCHES"

_NO_MAX_BATCH = f"there is no max_batch ({MAX_BATCH}; in Triton's file max_batch_size), the most rows of one inference"

NAMES = {
    "max_batch": MAX_BATCH,
    "max_batch_delay_us": MAX_BATCH_DELAY_US,
    "preferred_batches": PREFERRED_BATCHES,
}
"""The properties, by what the same options are called in flags and settings."""


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """What one source says: the server's flags, a model's settings, or the caller that compiles it; None for nothing.

    Attributes:
        max_batch: The most rows of one inference; up to 1 for no batches.
        max_batch_delay_us: How long few rows wait for more.
        preferred_batches: The sizes that runs take if they can.
    """

    max_batch: int | None = None
    max_batch_delay_us: int | None = None
    preferred_batches: tuple[int, ...] | None = None

    def over(self, below: BatchOptions) -> BatchOptions:
        """Give these options, and where they say nothing those below, except for sizes that are larger than a batch."""
        sizes, most = below.preferred_batches, self.max_batch
        if sizes is not None and most is not None:
            sizes = tuple(size for size in sizes if size <= most)
        return BatchOptions(
            below.max_batch if most is None else most,
            below.max_batch_delay_us if self.max_batch_delay_us is None else self.max_batch_delay_us,
            sizes if self.preferred_batches is None else self.preferred_batches,
        )

    def batching(self, below: BatchOptions | None = None) -> Batching | None:
        """Say how jobs are batched by these options and, where they say nothing, those below; None if they are not.

        Raises:
            UnfitSetting: For one of these options that does not go with the others.
        """
        said = self if below is None else self.over(below)
        if said.max_batch is None:
            for name in ("max_batch_delay_us", "preferred_batches"):
                if getattr(self, name):
                    raise UnfitSetting([name], _NO_MAX_BATCH)
            return None
        if said.max_batch <= 1:
            return None
        try:
            return Batching(said.max_batch, (said.max_batch_delay_us or 0) / 1e6, said.preferred_batches or ())
        except ServingError as error:
            # Only the sizes can be wrong here: any number of rows goes with any delay.
            raise UnfitSetting(["preferred_batches"], error.message) from error


class Divided(NamedTuple):
    """Batching options, and the properties that are left without them."""

    batches: BatchOptions
    properties: Properties


def divide(properties: Properties) -> Divided:
    """Divide properties into batching options and the others.

    Raises:
        ServingError: INVALID_INPUT for a value that an option cannot have, or an option that is not known.
    """
    own = {name: value for name, value in properties.items() if name.startswith(OWN_PREFIX)}
    for name in own:
        if name not in NAMES.values():
            raise invalid_input(f"property {name} is not known, expected one of {', '.join(NAMES.values())}")
    batches = BatchOptions(
        _number(MAX_BATCH, own[MAX_BATCH]) if MAX_BATCH in own else None,
        _number(MAX_BATCH_DELAY_US, own[MAX_BATCH_DELAY_US]) if MAX_BATCH_DELAY_US in own else None,
        _numbers(PREFERRED_BATCHES, own[PREFERRED_BATCHES]) if PREFERRED_BATCHES in own else None,
    )
    return Divided(batches, {name: value for name, value in properties.items() if name not in own})


def as_property(unfit: UnfitSetting) -> ServingError:
    """Turn an unfit option into an error that names its property."""
    return invalid_input(f"property {NAMES['.'.join(unfit.setting)]}: {unfit.reason}")


def _numbers(name: str, value: PropertyValue) -> tuple[int, ...]:
    if isinstance(value, str):
        return tuple(_number(name, part.strip()) for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple):
        return tuple(_number(name, item) for item in value)
    return (_number(name, value),)


def _number(name: str, value: PropertyValue) -> int:
    """Read a whole number, also if it is text, because OpenVINO takes its own properties as text, too."""
    is_text = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(LARGEST))
    number = int(str(value)) if is_text else value
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= LARGEST:
        return number
    raise invalid_input(f"property {name} is {_shown(value)}, expected a whole number from 0 up to {LARGEST}")


def _shown(value: object) -> str:
    """Write a value, unless it is nested too deeply or has more digits than Python writes."""
    try:
        return repr(value)
    except (RecursionError, ValueError):
        return "too long to be shown"
