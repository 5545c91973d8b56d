"""Measure ways of running models, in one run on one machine: `python -m tests.bench --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench import c_clients
from tests.bench.networks import NETWORKS, lay_out
from tests.bench.report import machine, table
from tests.bench.rounds import Rows, run
from tests.bench.stage import running_stage
from tests.bench.ways import Case, Local, ways

USUAL = {
    "digits_mlp": (1, 16),
    "digits_mlp_batched": (64,),
    "efficientnet_lite0": (4,),
    "resnet50": (4,),
}
"""What is measured unless more is asked for: how many inferences in flight for each model."""

CONCURRENCIES = (1, 4, 16, 64)


def measured(arguments: argparse.Namespace) -> Iterator[tuple[str, Rows]]:
    """Measure each case that is asked for."""
    without = frozenset(name for name in c_clients.PACKAGES if _is_missing(name))
    with TemporaryDirectory() as folder:
        plan = _plan(arguments)
        networks = lay_out(Path(folder), plan)
        with running_stage(Path(folder)) as stage:
            for network in networks:
                local = Local(network)
                for in_flight in plan[network.name]:
                    case = Case(local, in_flight, stage)
                    chosen = list(ways(case, tuple(arguments.way), without=without))
                    yield case.title, run(case.title, chosen, arguments.rounds, arguments.seconds)


def _plan(arguments: argparse.Namespace) -> dict[str, Sequence[int]]:
    asked = arguments.model or (list(NETWORKS) if arguments.all else list(USUAL))
    usual = dict.fromkeys(NETWORKS, CONCURRENCIES) if arguments.all else USUAL
    return {name: arguments.concurrency or usual.get(name, (4,)) for name in asked}


def _is_missing(generator: str) -> bool:
    sentence = c_clients.missing(generator)
    if sentence:
        sys.stderr.write(f"{sentence}\n")
    return sentence is not None


def parser() -> argparse.ArgumentParser:
    """Say what can be asked for."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every model with 1, 4, 16 and 64 in flight (an hour)")
    parser.add_argument("--model", action="append", choices=list(NETWORKS), help="only this one; may be repeated")
    parser.add_argument(
        "--way", action="append", default=[], help="only ways whose names contain this; may be repeated"
    )
    parser.add_argument("--concurrency", action="append", type=int, help="so many in flight; may be repeated")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which each figure's median counts")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds per way and round")
    return parser


def main() -> None:
    """Run the benchmark."""
    arguments = parser().parse_args()
    sys.stdout.write(machine() + "\n")
    for title, rows in measured(arguments):
        sys.stdout.write(f"\n{table(title, rows)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
