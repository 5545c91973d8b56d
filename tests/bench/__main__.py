"""Measure ways of running models, in one run on one machine: `python -m tests.bench --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.bench import against_peers, c_clients, idle, of_ways, of_wires, page
from tests.bench.command_line import ALL_PEERS, AT_REST, BY_WIRE, PARTS, parse
from tests.bench.goals import cases_of_goals
from tests.bench.networks import NETWORKS
from tests.bench.peer_catalogue import PEERS
from tests.bench.report import machine, table
from tests.bench.rounds import Rows
from tests.bench.store import Store
from tests.bench.wire import Wire

CONCURRENCIES = (1, 4, 16, 64)
STORE = Store()
Plan = dict[str, Sequence[int]]


def main() -> None:
    """Do what the command line asks for."""
    arguments = parse(sys.argv[1:])
    sys.stdout.write(machine() + "\n")
    match arguments.command:
        case "peer":
            for name in arguments.name:
                _show(_of_peer(name, arguments), PEERS[name].title)
        case "wire":
            wires = of_wires.WIRES if arguments.mbit is None else (Wire(arguments.round_trip_ms, arguments.mbit),)
            _show(_of_wires(wires, arguments.way, arguments), of_wires.BASE)
        case "page":
            if not arguments.stored:
                _measure(arguments)
            peers = {name: STORE.kept(f"peer-{name}") for name in arguments.peers}
            found = page.Results(
                STORE.kept_machines(), STORE.kept("ways"), STORE.kept("wires"), peers, STORE.kept_at_rest()
            )
            page.write(arguments.path, found)
        case _:
            usual = dict.fromkeys(NETWORKS, CONCURRENCIES) if arguments.all else of_ways.USUAL
            _show(_of_ways(_plan(arguments, usual), arguments.way, arguments), "in process")


def _measure(arguments: argparse.Namespace) -> None:
    """Measure what a page shows, or the parts that are asked for, and keep each case as soon as it is there."""
    if not arguments.only:
        STORE.forget()
    STORE.keep_machine(machine(), arguments.only or ())
    asked = arguments.only or PARTS
    if AT_REST in asked:
        STORE.keep_at_rest(idle.measured())
    plan = {name: sorted({*counts, *of_ways.USUAL.get(name, ())}) for name, counts in cases_of_goals().items()}
    wanted = {name: counts for name, counts in _plan(arguments, plan).items() if name in asked}
    for title, rows in _shown(_of_ways(wanted, (), arguments), "in process"):
        STORE.keep("ways", {title: rows})
    if BY_WIRE in asked:
        for title, rows in _shown(_of_wires(of_wires.WIRES, (), arguments), of_wires.BASE):
            STORE.keep("wires", {title: rows})
    for name in arguments.peers:
        if name in asked or ALL_PEERS in asked:
            _measure_peer(name, arguments)


def _measure_peer(name: str, arguments: argparse.Namespace) -> None:
    """Measure a peer for a page; cases where it fails are left out."""
    try:
        for title, rows in _shown(_of_peer(name, arguments), PEERS[name].title):
            STORE.keep(f"peer-{name}", {title: rows})
    except AssertionError as error:
        sys.stderr.write(f"{error}\n")


def _of_ways(plan: Plan, chosen: Sequence[str], arguments: argparse.Namespace) -> Iterator[tuple[str, Rows]]:
    missing = {name: sentence for name in c_clients.PACKAGES if (sentence := c_clients.missing(name))}
    for sentence in missing.values():
        sys.stderr.write(f"{sentence}; the ways that use it are left out\n")
    without = frozenset(missing)
    return of_ways.measured(plan, of_ways.Load(chosen, without, arguments.rounds, arguments.seconds))


def _of_wires(
    wires: Sequence[Wire], chosen: Sequence[str], arguments: argparse.Namespace
) -> Iterator[tuple[str, Rows]]:
    plan = _plan(arguments, of_wires.USUAL)
    return of_wires.measured(plan, wires, chosen, arguments.rounds, arguments.seconds)


def _of_peer(name: str, arguments: argparse.Namespace) -> Iterator[tuple[str, Rows]]:
    plan = _plan(arguments, against_peers.USUAL)
    for generator in c_clients.PACKAGES:
        if sentence := c_clients.missing(generator):
            sys.exit(f"{sentence}; peers are measured with it")
    return against_peers.against(name, plan, arguments.rounds, arguments.seconds)


def _plan(arguments: argparse.Namespace, usual: Mapping[str, Sequence[int]]) -> Plan:
    asked = arguments.model or list(usual)
    return {name: arguments.concurrency or usual.get(name, (4,)) for name in asked}


def _show(found: Iterable[tuple[str, Rows]], base: str) -> None:
    """Measure all cases, and print each as soon as it is there."""
    for _ in _shown(found, base):
        pass


def _shown(found: Iterable[tuple[str, Rows]], base: str) -> Iterator[tuple[str, Rows]]:
    for title, rows in found:
        sys.stdout.write(f"\n{table(title, rows, base)}\n")
        sys.stdout.flush()
        yield title, rows


if __name__ == "__main__":
    main()
