"""Measure ways of running models, in one run on one machine: `python -m tests.bench --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.bench import against_peers, c_clients, of_ways
from tests.bench.command_line import parse
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
        case _:
            _show(_of_ways(arguments, show_all=arguments.all), "in process")


def _of_ways(arguments: argparse.Namespace, *, show_all: bool) -> Iterator[tuple[str, Rows]]:
    usual = dict.fromkeys(NETWORKS, CONCURRENCIES) if show_all else of_ways.USUAL
    without = frozenset(name for name in c_clients.PACKAGES if _is_missing(name))
    return of_ways.measured(_plan(arguments, usual), arguments.way, without, arguments.rounds, arguments.seconds)


def _of_peer(name: str, arguments: argparse.Namespace) -> Iterator[tuple[str, Rows]]:
    plan = _plan(arguments, against_peers.USUAL)
    return against_peers.against(name, plan, arguments.rounds, arguments.seconds)


def _plan(arguments: argparse.Namespace, usual: Mapping[str, Sequence[int]]) -> Plan:
    asked = arguments.model or list(usual)
    return {name: arguments.concurrency or usual.get(name, (4,)) for name in asked}


def _is_missing(generator: str) -> bool:
    sentence = c_clients.missing(generator)
    if sentence:
        sys.stderr.write(f"{sentence}\n")
    return sentence is not None


def _show(found: Iterable[tuple[str, Rows]], base: str) -> None:
    for title, rows in found:
        sys.stdout.write(f"\n{table(title, rows, base)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
