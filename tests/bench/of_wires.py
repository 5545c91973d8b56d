"""Ways into this server from another machine: by a wire with a delay and a rate, against bare gRPC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.networks import lay_out
from tests.bench.rounds import Rows, run
from tests.bench.stage import Stage, running_stage
from tests.bench.ways import FAR_KINDS, Case, Local, ways
from tests.bench.wire import Wire

BASE = "a bare gRPC call"
"""The way that the others are compared with."""

USUAL = {"digits_mlp": (1, 16), "corner": (1, 16)}
"""The default plan: how many inferences in flight for each model."""

WIRES = (Wire(2, 1000), Wire(20, 500))
"""The default wires: like a network within a building, and within a country."""


def measured(
    plan: Mapping[str, Sequence[int]], wires: Sequence[Wire], chosen: Sequence[str], rounds: int, seconds: float
) -> Iterator[tuple[str, Rows]]:
    """Measure each model by each wire with so many in flight; give each case's figures."""
    for name, counts in plan.items():
        with TemporaryDirectory() as folder:
            (network,) = lay_out(Path(folder), [name])
            local = Local(network)
            with running_stage(Path(folder)) as stage:
                for wire in wires:
                    with ExitStack() as led:
                        far = _at_the_end_of(wire, stage, led)
                        for in_flight in counts:
                            case = Case(local, in_flight, far)
                            most = wire.most_per_second(network.sample.nbytes)
                            title = f"{case.title}, {wire} (inputs of at most {most:,.0f}/s)"
                            yield title, run(title, list(ways(case, chosen, kinds=FAR_KINDS)), rounds, seconds)


def _at_the_end_of(wire: Wire, stage: Stage, led: ExitStack) -> Stage:
    """Give the stage as it is to clients at the other end of a wire."""
    ports = {"grpc_port": stage.server.grpc_port, "http_port": stage.server.http_port}
    server = replace(stage.server, **{name: led.enter_context(wire.to(port)) for name, port in ports.items()})
    host, _, port = stage.floor.address.rpartition(":")
    floor = replace(stage.floor, address=f"{host}:{led.enter_context(wire.to(int(port)))}")
    return replace(stage, server=server, floor=floor)
