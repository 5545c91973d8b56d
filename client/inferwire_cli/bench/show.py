"""A load from the command line to its report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from inferwire.transport.operator_calls import OperatorCalls
from inferwire_cli.bench import ways
from inferwire_cli.bench.inputs import advice_on_shapes, complete
from inferwire_cli.bench.load import Budget, Way
from inferwire_cli.bench.measure import AllFailedError, Spending, measure
from inferwire_cli.bench.plot import check_plot, save_plot
from inferwire_cli.bench.report import Measured, as_document, as_text
from inferwire_cli.bench.ways import Work
from inferwire_cli.exit_codes import FAILED, INTERRUPTED
from inferwire_cli.infer.pictures import PixelOptions
from inferwire_cli.infer.values import read_inputs
from inferwire_cli.named_model import named_model
from inferwire_cli.named_server import NamedServer, named_server
from inferwire_cli.terminal import CommandError, ending_in_a_code, new_console

LEAST_CONCURRENCY = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """What the command line asks for."""

    name: str
    version: str
    path: str
    seconds: float
    number: int | None
    concurrency: int | None
    batch: int | None
    inputs: tuple[str, ...]
    shapes: tuple[str, ...]
    pixels: PixelOptions
    plot: Path | None
    as_json: bool

    def budget(self) -> Budget:
        """Begin the budget of the load to measure."""
        return Budget(self.number, None if self.number is not None else self.seconds)


def show(plan: Plan, address: str | None, http: str | None, root_certificates: Path | None) -> int:
    """Measure, print and draw; give the exit code."""
    return ending_in_a_code(lambda: _show(plan, named_server(address, root_certificates), http))


def _show(plan: Plan, server: NamedServer, http: str | None) -> int:
    if plan.plot is not None:
        check_plot(plan.plot)
    with server.calls() as calls:
        work = _work(plan, calls)
        way = _way(plan, work, calls, server, http)
        try:
            spending, is_interrupted = measure(way, work.concurrency, plan.budget, plan.name)
        except AllFailedError as error:
            advice = advice_on_shapes(work.inputs, plan.inputs, plan.shapes, work.ports)
            raise CommandError(f"{error}{advice}") from error
    if not (is_interrupted or spending.tally.samples or spending.tally.failures):
        raise CommandError(f"nothing was answered in {spending.elapsed_s:.3f} s: give more --seconds, or a --number")
    measured = _measured(work, plan.path, spending)
    if plan.as_json:
        print(json.dumps(as_document(measured), indent=2))  # noqa: T201 - what the command is for
    else:
        new_console().print(as_text(measured))
    if plan.plot is not None and measured.tally.samples:
        save_plot(measured, plan.plot)
    if is_interrupted:
        return INTERRUPTED
    return FAILED if measured.tally.failures else 0


def _work(plan: Plan, calls: OperatorCalls) -> Work:
    model = named_model(calls, plan.name, plan.version)
    ports = model.description.inputs
    inputs = complete(read_inputs(plan.inputs, ports, plan.pixels), ports, plan.shapes, plan.batch)
    return Work(plan.name, plan.version, model, inputs, plan.concurrency or max(2 * model.slots, LEAST_CONCURRENCY))


def _way(plan: Plan, work: Work, calls: OperatorCalls, server: NamedServer, http: str | None) -> Way:
    match plan.path:
        case "rest":
            return ways.rest(server.http(http), work)
        case "grpc":
            return ways.grpc(calls, work)
        case _:
            return ways.sdk(server, work)


def _measured(work: Work, path: str, spending: Spending) -> Measured:
    return Measured(
        name=work.name,
        version=work.model.description.version,
        devices=work.model.devices,
        path=path,
        concurrency=work.concurrency,
        batch=next((array.shape[0] for array in work.inputs.values() if array.ndim), 1),
        elapsed_s=spending.elapsed_s,
        per_second=spending.per_second,
        tally=spending.tally,
    )
