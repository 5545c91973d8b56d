"""What was measured last, kept in files, so that a page can be written again and a run need not be all at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.bench.idle import AtRest
from tests.bench.load import Figures
from tests.bench.rounds import Row, Rows

FOLDER = Path(__file__).resolve().parents[2] / "build/bench"

Cases = dict[str, Rows]
"""Each case's rows by its title."""


def keep(name: str, cases: Mapping[str, Rows]) -> None:
    """Keep the cases of one kind of run in place of what is there."""
    _write(name, {title: {way: asdict(row)["rounds"] for way, row in rows.items()} for title, rows in cases.items()})


def kept(name: str) -> Cases:
    """Read the cases of a kind of run; none if there was no such run."""
    return {
        title: {way: Row(tuple(Figures(**figures) for figures in rounds)) for way, rounds in rows.items()}
        for title, rows in _read(name).items()
    }


def keep_at_rest(found: AtRest) -> None:
    """Keep what was measured at rest."""
    _write("rest", asdict(found))


def kept_at_rest() -> AtRest | None:
    """Read what was measured at rest, if it was."""
    found = _read("rest")
    return AtRest(**found) if found else None


def keep_machine(described: str) -> None:
    """Keep what was measured on."""
    _write("machine", {"described": described})


def kept_machine() -> str:
    """Read what was measured on."""
    return _read("machine").get("described", "an unknown machine")


def _write(name: str, value: object) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(value, indent=1))


def _read(name: str) -> dict[str, Any]:
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}
