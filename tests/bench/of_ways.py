"""Every way into this server, against openvino in process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
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
"""The default plan: how many inferences in flight for each model."""


@dataclass(frozen=True, slots=True)
class Load:
    """Which ways are measured, and how long: those whose names contain one of the chosen texts, or all."""

    chosen: Sequence[str]
    without: frozenset[str]
    rounds: int
    seconds: float


def measured(plan: Mapping[str, Sequence[int]], load: Load) -> Iterator[tuple[str, Rows]]:
    """Measure each model with so many in flight; give each case's figures.

    Each model has processes of its own on both sides: nothing that another has left there can disturb it.
    """
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        for name, counts in plan.items():
            yield from processes.submit(_network, name, counts, load).result()


def _network(name: str, counts: Sequence[int], load: Load) -> list[tuple[str, Rows]]:
    with TemporaryDirectory() as folder:
        (network,) = lay_out(Path(folder), [name])
        local = Local(network)
        with running_stage(Path(folder), network) as stage:
            cases = [Case(local, in_flight, stage) for in_flight in counts]
            return [(case.title, _case(case, load)) for case in cases]


def _case(case: Case, load: Load) -> Rows:
    return run(case.title, list(ways(case, load.chosen, load.without)), load.rounds, load.seconds)
