"""The latest results, kept in files, so that a page can be written again and a run can be made in parts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.idle import AtRest
from tests.bench.load import Figures
from tests.bench.rounds import Row, Rows

FOLDER = Path(__file__).resolve().parents[2] / "build/bench"

Cases = Mapping[str, Rows]
"""Each case's rows by its title."""


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines of the results: of the whole run, and of the parts that were measured again since."""

    described: str
    again: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of results."""

    folder: Path = FOLDER

    def forget(self) -> None:
        """Drop all that is kept."""
        for path in self.folder.glob("*.json"):
            path.unlink()

    def keep(self, name: str, cases: Mapping[str, Rows]) -> None:
        """Keep cases of one kind of run, each in place of its earlier result."""
        found = {title: {way: asdict(row)["rounds"] for way, row in rows.items()} for title, rows in cases.items()}
        self._write(name, self._read(name) | found)

    def kept(self, name: str) -> Cases:
        """Read the cases of a kind of run; none if there was no such run."""
        return {
            title: {way: Row(tuple(Figures(**figures) for figures in rounds)) for way, rounds in rows.items()}
            for title, rows in self._read(name).items()
        }

    def keep_at_rest(self, found: AtRest) -> None:
        """Keep what was measured at rest."""
        self._write("rest", asdict(found))

    def kept_at_rest(self) -> AtRest | None:
        """Read what was measured at rest, if it was."""
        found = self._read("rest")
        return AtRest(**found) if found else None

    def keep_machine(self, described: str, parts: Iterable[str] = ()) -> None:
        """Keep the machine of the whole run, or of some parts that were measured after it."""
        before = self._read("machine")
        again = dict.fromkeys(parts, described)
        self._write("machine", {"described": described} | before | {"again": before.get("again", {}) | again})

    def kept_machines(self) -> Machines:
        """Read the machines of the results."""
        found = self._read("machine")
        return Machines(found.get("described", "an unknown machine"), found.get("again", {}))

    def _write(self, name: str, value: object) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{name}.json").write_text(json.dumps(value, indent=1))

    def _read(self, name: str) -> dict[str, Any]:
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else {}
