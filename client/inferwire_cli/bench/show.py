"""A load from the command line to its report."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from inferwire.transport.address import Address
from inferwire.transport.operator_calls import OperatorCalls
from inferwire_cli.bench import ways
from inferwire_cli.bench.inputs import complete
from inferwire_cli.bench.load import Budget, Tally, Way
from inferwire_cli.bench.plot import check_plot, save_plot
from inferwire_cli.bench.report import Measured, as_document, as_text
from inferwire_cli.bench.ways import Work
from inferwire_cli.exit_codes import FAILED, INTERRUPTED
from inferwire_cli.http_address import http_address
from inferwire_cli.infer.pictures import PixelOptions
from inferwire_cli.infer.values import read_inputs
from inferwire_cli.terminal import CommandError, ending_in_a_code, new_console, server_address

LEAST_CONCURRENCY = 8
REFRESH_S = 0.1
END_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for on the command line."""

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
        """Begin what is to be measured."""
        return Budget(self.number, None if self.number is not None else self.seconds)


def show(plan: Plan, address: str | None, http: str | None) -> int:
    """Measure, print and draw; give the exit code."""
    return ending_in_a_code(lambda: _show(plan, server_address(address), http))


def _show(plan: Plan, address: Address, http: str | None) -> int:
    if plan.plot is not None:
        check_plot(plan.plot)
    with OperatorCalls(address) as calls:
        work = _work(plan, calls)
        way = _way(plan, work, calls, address, http)
        _warm_up(way, work)
        measured, is_interrupted = _measure(plan, way, work)
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
    model = calls.model(plan.name, plan.version)
    ports = model.description.inputs
    inputs = complete(read_inputs(plan.inputs, ports, plan.pixels), ports, plan.shapes, plan.batch)
    slots = model.description.optimal_number_of_infer_requests
    return Work(plan.name, plan.version, model, inputs, plan.concurrency or max(2 * slots, LEAST_CONCURRENCY))


def _way(plan: Plan, work: Work, calls: OperatorCalls, address: Address, http: str | None) -> Way:
    match plan.path:
        case "rest":
            return ways.rest(http_address(http, address), work)
        case "grpc":
            return ways.grpc(calls, work)
        case _:
            return ways.sdk(address, work)


def _warm_up(way: Way, work: Work) -> None:
    """Run each place once; what fails here would fail always."""
    tally = Tally()
    way(Budget(work.concurrency, None), tally)
    if tally.failures and not tally.samples:
        raise CommandError(next(iter(tally.failures)))


def _measure(plan: Plan, way: Way, work: Work) -> tuple[Measured, bool]:
    tally, ended = Tally(), threading.Event()
    errors, elapsed_s = list[Exception](), list[float]()
    budget = plan.budget()

    def spend() -> None:
        try:
            way(budget, tally)
        except Exception as error:  # noqa: BLE001 - raised again below, where somebody looks
            errors.append(error)
        finally:
            elapsed_s.append(budget.elapsed_s)
            ended.set()

    threading.Thread(target=spend, daemon=True).start()
    is_interrupted = False
    try:
        _follow(plan, budget, tally, ended)
    except KeyboardInterrupt:
        is_interrupted = True
        budget.stop()
        ended.wait(END_LIMIT_S)
    if errors and not tally.samples:
        raise errors[0]
    for error in errors:
        tally.fail(str(error))
    description = work.model.description
    rows = next((array.shape[0] for array in work.inputs.values() if array.ndim), 1)
    devices = work.model.devices
    took_s = elapsed_s[0] if elapsed_s else budget.elapsed_s
    measured = Measured(plan.name, description.version, devices, plan.path, work.concurrency, rows, took_s, tally)
    return measured, is_interrupted


def _follow(plan: Plan, budget: Budget, tally: Tally, ended: threading.Event) -> None:
    """Show how far it is until it has ended."""
    console = new_console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with ExitStack() as stack:
        progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        stack.enter_context(progress)
        task = progress.add_task(plan.name, total=1.0, rate="")
        while not ended.wait(REFRESH_S):
            rate = f"{len(tally.samples) / budget.elapsed_s:,.0f}/s"
            progress.update(task, completed=budget.done, rate=rate)
