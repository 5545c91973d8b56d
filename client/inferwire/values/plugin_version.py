"""The version of a plugin: `Version`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Version:
    """The name of a device's plugin, and its build. Mirrors `openvino.Version`."""

    build_number: str
    description: str

    def __repr__(self) -> str:
        return f"<Version: {self.build_number} {self.description}>"

    @property
    def major(self) -> int:
        """The year of the release. Mirrors `openvino.Version.major`."""
        return self._number(0)

    @property
    def minor(self) -> int:
        """The release within the year. Mirrors `openvino.Version.minor`."""
        return self._number(1)

    @property
    def patch(self) -> int:
        """The correction of the release. Mirrors `openvino.Version.patch`."""
        return self._number(2)

    def _number(self, at: int) -> int:
        numbers = self.build_number.partition("-")[0].split(".")
        return int(numbers[at]) if at < len(numbers) and numbers[at].isdigit() else 0
