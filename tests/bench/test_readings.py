"""What is read from load generators, and what is made of figures. Nothing is measured here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.bench import charts, goals, page
from tests.bench.against_peers import USUAL, title_of
from tests.bench.c_clients import (
    LONGEST_S,
    H2Load,
    check_h2load,
    read_h2load,
    read_h2load_log,
    read_wrk,
    until_answered,
)
from tests.bench.command_line import PARTS, parse
from tests.bench.load import Answered, Figures, KnownAnswers
from tests.bench.networks import NETWORKS, Array
from tests.bench.peer_catalogue import PEERS
from tests.bench.processes import cpu_s
from tests.bench.report import table
from tests.bench.rounds import Ratio, Row, ratios_to_first
from tests.bench.store import Machines, Store
from tests.bench.ways import KINDS

ROOT = Path(__file__).resolve().parents[2]
H2LOAD = """
finished in 850.20ms, 4704.79 req/s, 712.31KB/s
requests: 4000 total, 4000 started, 4000 done, 3998 succeeded, 2 failed, 0 errored, 0 timeout
status codes: 3998 2xx, 0 3xx, 0 4xx, 2 5xx
traffic: 605.60KB (620134) total, 55.02KB (56340) headers (space savings 94.21%), 410.16KB (420000) data
"""


def figures(per_second: float) -> Figures:
    return Figures(per_second, 1.0, 2.0, 30.0, 40.0)


def test_a_summary_of_h2load() -> None:
    found = read_h2load(H2LOAD)
    assert (found.succeeded, found.failed, found.data_bytes) == (3998, 2, 420000)
    assert found.elapsed_s == pytest.approx(0.8502)


def test_h2load_that_says_something_else() -> None:
    with pytest.raises(AssertionError, match="expected its summary"):
        read_h2load("could not connect")


@pytest.mark.parametrize("data_bytes", [10 * 105, 12 * 105])
def test_answers_of_h2load_that_the_end_has_cut_off_are_no_fault(data_bytes: int) -> None:
    check_h2load(H2Load(10, 0, data_bytes, 1.0), answer_bytes=100, in_flight=2)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(H2Load(0, 0, 0, 1.0), id="none"),
        pytest.param(H2Load(10, 1, 10 * 105, 1.0), id="a call that failed"),
        pytest.param(H2Load(10, 0, 10 * 105 - 1, 1.0), id="a byte too few"),
        pytest.param(H2Load(10, 0, 12 * 105 + 1, 1.0), id="a byte too many"),
    ],
)
def test_h2load_was_refused(found: H2Load) -> None:
    with pytest.raises(AssertionError, match="h2load expected answers of 100 bytes"):
        check_h2load(found, answer_bytes=100, in_flight=2)


def test_latencies_of_h2load() -> None:
    assert read_h2load_log("1700000000000001\t200\t1500\n1700000000000900\t200\t250\n") == [0.0015, 0.00025]


def wrk(**changes: int) -> str:
    said = {"requests": 10, "elapsed_us": 2_000_000, "bad_status": 0, "failed": 0, "p50_us": 500, "p99_us": 900}
    return "Running 2s test\n" + json.dumps(said | changes) + "\n"


def test_what_wrk_writes() -> None:
    assert read_wrk(wrk()) == Answered(count=10, elapsed_s=2.0, p50_s=0.0005, p99_s=0.0009)


@pytest.mark.parametrize("changes", [{"bad_status": 1}, {"failed": 1}, {"requests": 0, "failed": 1}])
def test_wrk_was_refused(changes: dict[str, int]) -> None:
    with pytest.raises(AssertionError, match="was refused"):
        read_wrk(wrk(**changes))


def test_a_run_without_an_answer_is_done_again_in_twice_the_time() -> None:
    assert read_wrk(wrk(requests=0)) is None
    asked: list[float] = []

    def once(seconds: float) -> Answered | None:
        asked.append(seconds)
        return Answered(count=1, elapsed_s=seconds, p50_s=1.0, p99_s=1.0) if seconds > enough_s else None

    enough_s = 1.0
    assert until_answered(once, 0.4).elapsed_s == 1.6
    enough_s = LONGEST_S * 2
    with pytest.raises(AssertionError, match="nothing was answered in 64 s"):
        until_answered(once, 16)
    assert asked == [0.4, 0.8, 1.6, 16, 32, 64]


def test_a_wrong_answer_is_found_behind_right_ones() -> None:
    def read(answer: bytes) -> Array:
        return np.frombuffer(answer, np.float32)

    right, wrong = np.array([1, 2], np.float32), np.array([1, 3], np.float32)
    answers = KnownAnswers(read, right, "a way")
    answers.check(right.tobytes())
    answers.check(right.tobytes())
    with pytest.raises(AssertionError, match="a way answered"):
        answers.check(wrong.tobytes())


def test_ratios_are_taken_within_rounds() -> None:
    base = Row((figures(100), figures(50), figures(200)))
    other = Row((figures(50), figures(50), figures(180)))
    assert str(other.ratio(base)) == "0.90 (0.50-1.00)"


@pytest.mark.parametrize(("rates", "verdict"), [((96, 99), "yes"), ((80, 90), "**no**"), ((90, 99), "noise hides it")])
def test_a_goal_is_met_where_every_round_says_so(rates: tuple[float, float], verdict: str) -> None:
    answered = Row(tuple(map(figures, rates)))
    rows = {goals.QUEUE: Row((figures(100), figures(100))), "SDK AsyncInferQueue, inputs sent": answered}
    (line,) = goals.lines({"resnet50, 4 in flight": rows}, {}, None)
    assert line.endswith(f"| {verdict} |")


@pytest.mark.parametrize(("cpu_us", "verdict"), [((400, 600), "yes"), ((601, 700), "**no**")])
def test_a_goal_of_cpu_time_is_met_where_every_round_stays_below_it(cpu_us: tuple[float, float], verdict: str) -> None:
    row = Row(tuple(Figures(100, 1.0, 2.0, 500.0, beyond + 40) for beyond in cpu_us))
    inference = Row(tuple(Figures(100, 1.0, 2.0, 40.0, 0.0) for _ in cpu_us))
    (line,) = goals.lines({"corner, 4 in flight": {"OIP gRPC, h2load": row, goals.INFERENCE: inference}}, {}, None)
    assert "| at most 600 |" in line
    assert line.endswith(f"| {verdict} |")


def test_two_workers_are_held_against_a_peer_beside_one() -> None:
    rates = {"mosec": 100, "inferwire": 90, "inferwire with 2 workers": 160}
    rows = {name: Row((figures(rate),)) for name, rate in rates.items()}
    assert {who: ratio.middle for who, ratio in ratios_to_first(rows).items()} == {
        "inferwire / mosec": 0.9,
        "inferwire with 2 workers / mosec": 1.6,
    }
    one, two = goals.lines({}, {"mosec": {"digits_mlp, bytes over HTTP, 16 in flight": rows}}, None)
    assert "inferwire / mosec | at least 1.5 |" in one
    assert one.endswith("| **no** |")
    assert "inferwire with 2 workers / mosec | at least 1.5 |" in two
    assert two.endswith("| yes |")


def test_goals_are_of_ways_and_networks_that_there_are() -> None:
    kinds = {kind.name for kind in KINDS}

    for goal in (*goals.GOALS, *goals.CPU_GOALS):
        assert goal.way in kinds
        assert goal.case.partition(", ")[0] in NETWORKS
    assert {goals.INFERENCE, *(goal.base for goal in goals.GOALS)} <= kinds


def test_goals_are_of_cases_of_peers_that_there_are() -> None:
    for peer, case, _ in goals.PEER_GOALS:
        usual = {
            title_of(network, interface, count)
            for network, counts in USUAL.items()
            for interface in PEERS[peer].interfaces
            for count in counts
        }
        assert case in usual


def test_every_way_has_a_colour_in_the_chart() -> None:
    assert {charts.colour(kind.name) for kind in KINDS} == set(charts.COLOURS.values())
    with pytest.raises(LookupError, match="the way 'magic' has no colour"):
        charts.colour("magic")


def test_goals_of_what_was_not_measured_are_left_out() -> None:
    assert (
        list(goals.lines({"digits_mlp, 16 in flight": {"OIP gRPC": Row((figures(100),))}}, {"mosec": {}}, None)) == []
    )


@pytest.mark.parametrize(
    "two_workers", [{}, {"inferwire with 2 workers": Row((figures(160),))}], ids=["without", "with"]
)
def test_a_page_with_and_without_two_workers(two_workers: dict[str, Row], tmp_path: Path) -> None:
    in_process, ours = Row((figures(100),)), Row((figures(90),))
    ways = {"digits_mlp, 16 in flight": {"in process: AsyncInferQueue": in_process, "OIP gRPC, h2load": ours}}
    case = "digits_mlp, bytes over HTTP, 16 in flight"
    peers = {"mosec": {case: {"mosec": in_process, "inferwire": ours} | two_workers}, "kserve": {}}
    wires = {"corner, 1 in flight, 20 ms, 500 Mbit/s": {"floor": in_process, "SDK infer": ours}}
    path = tmp_path / "page.md"
    page.write(path, page.Results(Machines("a machine", {"mosec": "another"}), ways, wires, peers, None))
    written = path.read_text()
    assert "Measured on a machine.\n\nMeasured on another: mosec.\n" in written
    assert "### corner, 1 in flight, 20 ms, 500 Mbit/s\n\n| way | inferences/s | ratio to a bare gRPC call |" in written
    ratio_of_two = "1.60 (1.60-1.60)" if two_workers else ""
    assert f"| {case} | mosec | **0.90 (0.90-0.90)** | {ratio_of_two} |\n" in written
    assert ("with 2 workers / mosec | at least 1.5 | 1.60 (1.60-1.60) | yes |" in written) == bool(two_workers)


def test_peers_of_one_network_and_load_stand_in_one_chart() -> None:
    def rows(peer: str) -> dict[str, Row]:
        return {peer: Row((figures(100),)), "inferwire": Row((figures(90),))}

    peers = {
        "mosec": {"digits_mlp, bytes over HTTP, 16 in flight": rows("mosec")},
        "litserve": {
            "digits_mlp, base64 in JSON, ours binary, 16 in flight": rows("LitServe"),
            "digits_mlp, base64 in JSON, ours binary, 1 in flight": rows("LitServe"),
        },
    }
    ratio = {"inferwire": Ratio(0.9, 0.9, 0.9)}
    assert page.grouped(peers) == {
        "digits_mlp, 16 in flight": {
            "mosec, bytes over HTTP": ratio,
            "LitServe, base64 in JSON, ours binary": ratio,
        },
        "digits_mlp, 1 in flight": {"LitServe, base64 in JSON, ours binary": ratio},
    }


def test_a_machine_of_which_no_part_is_left_is_not_named(tmp_path: Path) -> None:
    parts = [part for part in PARTS if part not in PEERS]
    path = tmp_path / "page.md"
    page.write(path, page.Results(Machines("a machine", dict.fromkeys(parts, "another")), {}, {}, {}, None))
    assert f"Measured on another: {', '.join(parts)}.\n" in path.read_text()
    assert "Measured on a machine." not in path.read_text()


def test_a_page_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    page.write(path, page.Results(Machines("a machine", {}), {}, {}, {}, None))
    assert "Compared with other servers" not in path.read_text()


def test_the_page_of_the_docs_says_what_would_be_written_now() -> None:
    written = (ROOT / "docs/benchmarks.md").read_text()
    assert page.WHAT in written
    assert page.HOW in written
    assert page.peers_how() in written
    assert page.RATIOS in written
    assert page.GOALS in written
    assert page.FROM_ELSEWHERE in written


BUSY = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
OF_ITS_PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"


def test_the_cpu_time_of_a_process_holds_that_of_those_it_has_started() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OF_ITS_PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert cpu_s(process.pid) >= 0.25
        process.communicate(b"\n")


def test_cases_are_kept_each_in_its_place(tmp_path: Path) -> None:
    store = Store(tmp_path / "bench")
    store.keep("ways", {"a": {"SDK": Row((figures(1),))}, "b": {"SDK": Row((figures(2),))}})
    store.keep("ways", {"a": {"SDK": Row((figures(3),))}})
    kept = store.kept("ways")
    assert [(title, rows["SDK"].middle("per_second")) for title, rows in kept.items()] == [("a", 3), ("b", 2)]
    store.forget()
    assert store.kept("ways") == {}
    assert store.kept_at_rest() is None


def test_where_parts_were_measured_again_is_kept_beside_where_all_was(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.kept_machines() == Machines("an unknown machine", {})
    store.keep_machine("a machine")
    store.keep_machine("another", ["mosec"])
    assert store.kept_machines() == Machines("a machine", {"mosec": "another"})


def test_a_table() -> None:
    written = table("digits, 4 in flight", {"in process": Row((figures(2000),)), "SDK": Row((figures(1000),))})
    assert written.splitlines()[-1] == "| SDK | 1,000 | 0.50 (0.50-0.50) | 1.00 | 2.00 | 30 | 40 |"


def test_without_a_command_it_measures_ways() -> None:
    assert parse([]).command == "ways"
    assert parse(["--way", "SDK"]).way == ["SDK"]
    assert parse(["peer", "mosec", "triton"]).name == ["mosec", "triton"]


def test_a_wire_is_a_delay_and_a_rate() -> None:
    asked = parse(["wire", "--round-trip-ms", "5", "--mbit", "100"])
    assert (asked.round_trip_ms, asked.mbit) == (5, 100)
    with pytest.raises(SystemExit):
        parse(["wire", "--mbit", "100"])


def test_a_page_is_measured_again_in_parts() -> None:
    assert parse(["page", "there.md", "--only", "peers", "--only", "digits_mlp"]).only == ["peers", "digits_mlp"]
