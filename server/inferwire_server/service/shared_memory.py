"""Regions of shared memory that callers on this machine register, and tensors that lie in them.

All callers share the regions and their names. A region is there until a caller unregisters it, or the server ends. One
that was unregistered stays mapped while a job uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Transform
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.host.shared_segments import Segment, SharedSegments
from inferwire_server.service.names import check_name
from inferwire_server.service.values import Region, SharedPlace, SharedTensor

MOST_REGIONS = 512
"""Each takes an open file, of which a process has about a thousand."""


@dataclass(frozen=True, slots=True)
class _Mapped:
    region: Region
    segment: Segment


@dataclass(frozen=True, slots=True, order=True)
class _Span:
    """The bytes of a segment from `start` up to, not with, `end`."""

    key: str
    start: int
    end: int


class SharedMemoryService:
    """Keeps registered regions. Without segments it refuses to register or use any; there is none then to list."""

    def __init__(self, segments: SharedSegments | None, most_regions: int = MOST_REGIONS) -> None:
        self._segments = segments
        self._most_regions = most_regions
        self._mapped: dict[str, _Mapped] = {}

    def __repr__(self) -> str:
        return f"<SharedMemoryService: {len(self._mapped)} regions>"

    @property
    def is_offered(self) -> bool:
        """Whether callers may use shared memory."""
        return self._segments is not None

    async def register(self, region: Region) -> None:
        """Map a region under its name.

        Raises:
            ServingError: INVALID_INPUT if the name is taken or is none; what opening the segment raises.
        """
        segments = self._require()
        self._check_is_free(region.name)
        segment = await asyncio.to_thread(segments.open, region.key, region.offset, region.byte_size)
        self._check_is_free(region.name)
        self._mapped[region.name] = _Mapped(region, segment)

    def regions(self, name: str = "") -> tuple[Region, ...]:
        """List the region of a name, or all.

        Raises:
            ServingError: TENSOR_NOT_FOUND for a name that is not registered.
        """
        if name and name not in self._mapped:
            raise ServingError(Code.TENSOR_NOT_FOUND, f"Unable to find system shared memory region: '{name}'")
        return tuple(mapped.region for mapped in self._mapped.values() if name in ("", mapped.region.name))

    def unregister(self, name: str = "") -> None:
        """Unregister the region of a name, or all; do nothing if there is none."""
        if name:
            self._mapped.pop(name, None)
        else:
            self._mapped.clear()

    def tensor(self, shared: SharedTensor) -> Tensor:
        """Give an input that lies in shared memory as a tensor over it.

        Raises:
            ServingError: TENSOR_NOT_FOUND if its region is not registered, INVALID_INPUT if it ends before the tensor.
        """
        place = shared.place
        data = self._find(place).segment.view(place.offset, place.byte_size)
        return Tensor(shared.element_type, shared.shape, bytes(data) if shared.is_copied else data)

    def write_to(self, place: SharedPlace, what: str) -> Transform:
        """Give the transform that writes an output to its place; `what` names the output.

        Raises:
            ServingError: TENSOR_NOT_FOUND if its region is not registered, INVALID_INPUT if it ends before the place.
        """
        segment = self._find(place).segment

        def write(tensor: Tensor) -> Tensor:
            if tensor.byte_size > place.byte_size:
                raise invalid_input(
                    f"{what} takes {tensor.byte_size} bytes, but has {place.byte_size} "
                    f"in shared memory region '{place.region}'"
                )
            return tensor._replace(data=segment.write(place.offset, tensor.data))

        return write

    def check_apart(self, places: Iterable[SharedPlace]) -> None:
        """Refuse outputs whose places overlap.

        Raises:
            ServingError: INVALID_INPUT.
        """
        for one, other in pairwise(sorted(map(self._span, places))):
            if one.key == other.key and other.start < one.end:
                raise invalid_input(
                    f"outputs overlap in shared memory key '{one.key}', at {other.start} to {min(one.end, other.end)}, "
                    "expected places of their own"
                )

    def _span(self, place: SharedPlace) -> _Span:
        region = self._find(place).region
        start = region.offset + place.offset
        return _Span(region.key.lstrip("/"), start, start + place.byte_size)

    def _find(self, place: SharedPlace) -> _Mapped:
        self._require()
        mapped = self._mapped.get(place.region)
        if mapped is None:
            raise ServingError(Code.TENSOR_NOT_FOUND, f"Unable to find shared memory region: '{place.region}'")
        if place.offset + place.byte_size > mapped.region.byte_size:
            raise invalid_input(
                f"Invalid offset + byte size for shared memory region: '{place.region}' has {mapped.region.byte_size} "
                f"bytes, offset {place.offset} and byte size {place.byte_size} go beyond them"
            )
        return mapped

    def _require(self) -> SharedSegments:
        if self._segments is None:
            raise ServingError(
                Code.UNIMPLEMENTED,
                "this server does not offer shared memory: send tensors' bytes, or start it with --shared-memory",
            )
        return self._segments

    def _check_is_free(self, name: str) -> None:
        if not name:
            raise invalid_input("a shared memory region has no name, expected one")
        check_name("the name of a shared memory region", name)
        if name in self._mapped:
            raise invalid_input(f"shared memory region '{name}' already in manager: unregister it first")
        if len(self._mapped) >= self._most_regions:
            raise ServingError(
                Code.TOO_LARGE,
                f"shared memory region '{name}' is one too many, at most {self._most_regions} can be registered",
            )
