"""Measure ways of running models, in one run on one machine: `python -m tests.bench --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.bench import against_peers, c_clients, idle, of_ways, page, store
from tests.bench.command_line import parse
from tests.bench.goals import cases_of_goals
from tests.bench.networks import NETWORKS
from tests.bench.peer_catalogue import PEERS
from tests.bench.report import machine, table
from tests.bench.rounds import Rows

CONCURRENCIES = (1, 4, 16, 64)
Plan = dict[str, Sequence[int]]


def main() -> None:
    """Do what the command line asks for."""
    arguments = parse(sys.argv[1:])
    sys.stdout.write(machine() + "\n")
    match arguments.command:
        case "peer":
            for name in arguments.name:
                _show(_of_peer(name, arguments), PEERS[name].title)
        case "page":
            if not arguments.stored:
                _measure_all(arguments)
            peers = {name: store.kept(f"peer-{name}") for name in arguments.peers}
            found = page.Results(store.kept_machine(), store.kept("ways"), peers, store.kept_at_rest())
            page.write(arguments.path, found)
        case _:
            usual = dict.fromkeys(NETWORKS, CONCURRENCIES) if arguments.all else of_ways.USUAL
            _show(_of_ways(_plan(arguments, usual), arguments.way, arguments), "in process")


def _measure_all(arguments: argparse.Namespace) -> None:
    """Measure what a page shows, and keep each part as soon as it is there. A peer that fails is left out."""
    store.keep_machine(machine())
    store.keep_at_rest(idle.measured())
    plan = {name: sorted({*counts, *of_ways.USUAL.get(name, ())}) for name, counts in cases_of_goals().items()}
    store.keep("ways", dict(_show(_of_ways(_plan(arguments, plan), (), arguments), "in process")))
    _measure_peers(arguments)


def _measure_peers(arguments: argparse.Namespace) -> None:
    for name in arguments.peers:
        store.keep(f"peer-{name}", {})
        try:
            store.keep(f"peer-{name}", dict(_show(_of_peer(name, arguments), PEERS[name].title)))
        except AssertionError as error:
            sys.stderr.write(f"{error}\n")


def _of_ways(plan: Plan, chosen: Sequence[str], arguments: argparse.Namespace) -> Iterator[tuple[str, Rows]]:
    missing = {name: sentence for name in c_clients.PACKAGES if (sentence := c_clients.missing(name))}
    for sentence in missing.values():
        sys.stderr.write(f"{sentence}; the ways that use it are left out\n")
    without = frozenset(missing)
    return of_ways.measured(plan, of_ways.Load(chosen, without, arguments.rounds, arguments.seconds))


def _of_peer(name: str, arguments: argparse.Namespace) -> Iterator[tuple[str, Rows]]:
    plan = _plan(arguments, against_peers.USUAL)
    for generator in c_clients.PACKAGES:
        if sentence := c_clients.missing(generator):
            sys.exit(f"{sentence}; peers are measured with it")
    return against_peers.against(name, plan, arguments.rounds, arguments.seconds)


def _plan(arguments: argparse.Namespace, usual: Mapping[str, Sequence[int]]) -> Plan:
    asked = arguments.model or list(usual)
    return {name: arguments.concurrency or usual.get(name, (4,)) for name in asked}


def _show(found: Iterable[tuple[str, Rows]], base: str) -> list[tuple[str, Rows]]:
    """Print each case as soon as it is measured, and give all."""
    shown: list[tuple[str, Rows]] = []
    for title, rows in found:
        sys.stdout.write(f"\n{table(title, rows, base)}\n")
        sys.stdout.flush()
        shown.append((title, rows))
    return shown


if __name__ == "__main__":
    main()
