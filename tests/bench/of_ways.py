"""Every way into this server, against openvino in process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.networks import lay_out
from tests.bench.rounds import Rows, run
from tests.bench.stage import running_stage
from tests.bench.ways import Case, Local, ways

USUAL = {
    "digits_mlp": (1, 16),
    "digits_mlp_batched": (64,),
    "efficientnet_lite0": (4,),
    "resnet50": (4,),
    "resnet50_u8": (4,),
}
"""What is measured unless more is asked for: how many inferences in flight for each model."""


def measured(
    plan: Mapping[str, Sequence[int]], chosen: Sequence[str], without: frozenset[str], rounds: int, seconds: float
) -> Iterator[tuple[str, Rows]]:
    """Measure the chosen ways, or all, of each model with so many in flight; give each case's figures."""
    with TemporaryDirectory() as folder:
        networks = lay_out(Path(folder), plan)
        with running_stage(Path(folder)) as stage:
            for network in networks:
                local = Local(network)
                for in_flight in plan[network.name]:
                    case = Case(local, in_flight, stage)
                    yield case.title, run(case.title, list(ways(case, chosen, without)), rounds, seconds)
