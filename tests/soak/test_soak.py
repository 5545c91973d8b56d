"""The soak itself, for some seconds: that it runs, looks, and would say what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.soak.__main__ import faults
from tests.soak.tally import OK, Tally
from tests.soak.watch import Holding

from inferwire_cli.server_process import running_server

ROOT = Path(__file__).resolve().parents[2]
DEEDS = (
    *("OIP call", "OIP stream", "REST JSON", "REST bytes", "REST job"),
    *("SDK infer", "SDK queue", "SDK cancel", "SDK states"),
)


def test_a_short_soak_is_flat() -> None:
    # So short a warm-up does not fill what fills once: the figures count, not that they are small.
    command = [sys.executable, "-m", "tests.soak", "--minutes", "0.1", "--most-mib", "200", "--more-threads", "200"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("flat: nothing is left, every job is counted\n")
    for deed in DEEDS:
        assert f"| {deed} |" in done.stdout


def test_it_says_what_was_not_given_back(tmp_path: Path) -> None:
    before = Holding(100.0, 10, 10)
    with running_server(tmp_path) as server:
        assert faults(server, before, before, most_mib=1.0, more_threads=1) == []
        assert faults(server, before, Holding(101.5, 12, 20), most_mib=1.0, more_threads=1) == [
            "RSS grew from 100 to 102 MiB, 1 more are allowed",
            "threads grew from 10 to 12, 1 more are allowed",
            "open files grew from 10 to 20, 4 more are allowed",
        ]


def test_what_nobody_expected_ends_it() -> None:
    tally = Tally()
    tally.add("deed", OK)
    assert not tally.stop.is_set()
    tally.add("deed", "INTERNAL")
    assert tally.stop.is_set()
    assert tally.surprises == ["deed: INTERNAL, expected ok or QUEUE_FULL"]
    assert tally.rows() == {"deed": {OK: 1, "INTERNAL": 1}}
