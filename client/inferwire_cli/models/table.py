"""What a server serves, as a table for people or as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from inferwire.errors import ModelFailed, ModelNotFound, ModelNotReady
from inferwire.graph.described import PortDescription
from inferwire.transport.descriptions import ModelStatus
from inferwire.transport.operator_calls import ModelDetails, OperatorCalls
from inferwire_cli.named_server import named_server
from inferwire_cli.terminal import ending_in_a_code, in_short, new_console, new_table

STATE_STYLES = {"ready": "green", "failed": "bold red", "loading": "yellow", "warming": "yellow", "draining": "yellow"}

SHORT_NAME = 20
"""If no name has more characters than this, none is broken into lines."""

ASKED_AT_ONCE = 16
"""How many models the server is asked about at once: one by one, each takes a round trip of the network."""


@dataclass(frozen=True, slots=True)
class Row:
    """A version, and its details, which are known only while it takes jobs."""

    status: ModelStatus
    details: ModelDetails | None


def show(address: str | None, root_certificates: Path | None, *, as_json: bool) -> int:
    """Ask a server and print its models; give the exit code."""

    def work() -> None:
        # If a call fails, the connection closes before the threads are joined, so that none waits for an answer.
        with ThreadPoolExecutor(ASKED_AT_ONCE) as threads, named_server(address, root_certificates).calls() as calls:
            statuses = calls.models()
            rows = list(map(Row, statuses, threads.map(partial(_details, calls), statuses)))
        if as_json:
            print(json.dumps([as_document(row) for row in rows], indent=2))  # noqa: T201 - what the command is for
        elif rows:
            console = new_console()
            console.print(as_table(rows))
            for reason in reasons(rows):
                console.print(f"\n{reason}")
        else:
            new_console().print("the server serves no models")

    return ending_in_a_code(work)


def as_table(rows: Sequence[Row]) -> Table:
    """Lay out the versions as a table."""
    table = new_table()
    # If a line is too short, only ports and long names are broken into several.
    longest = max(len(row.status.name) for row in rows)
    table.add_column("model", overflow="fold", no_wrap=longest <= SHORT_NAME)
    for heading in ("version", "state", "device"):
        table.add_column(heading, no_wrap=True)
    table.add_column("slots", justify="right", no_wrap=True)
    table.add_column("inputs, → outputs", overflow="fold")
    for row in rows:
        table.add_row(*_cells(row))
    return table


def reasons(rows: Sequence[Row]) -> list[str]:
    """Give a line for each version whose state has a reason."""
    return [
        f"{status.name} version {status.version}: {in_short(status.reason)}"
        for status in (row.status for row in rows)
        if status.reason
    ]


def as_document(row: Row) -> dict[str, Any]:
    """Give a version as JSON."""
    status = row.status
    document: dict[str, Any] = {"name": status.name, "version": status.version, "state": status.state}
    if status.reason:
        document["reason"] = status.reason
    if row.details:
        model = row.details.description
        document |= {
            "devices": list(row.details.devices),
            "slots": row.details.slots,
            "inputs": [_port_document(port) for port in model.inputs],
            "outputs": [_port_document(port) for port in model.outputs],
        }
    return document


def port_text(port: PortDescription) -> str:
    """Describe a port in a few characters, as "pixels f32[?,64]"."""
    return f"{port.oip_name} {port.element_type.type_name}{port.partial_shape}"


def _details(calls: OperatorCalls, status: ModelStatus) -> ModelDetails | None:
    """Ask for the details of a version; None if it takes no jobs, perhaps only since it was listed."""
    if status.state not in ("ready", "unloaded"):
        return None
    try:
        # A version that was unloaded because it was idle takes jobs all the same.
        return calls.model(status.name, status.version)
    except (ModelFailed, ModelNotFound, ModelNotReady):
        return None


def _cells(row: Row) -> list[str | Text]:
    status, details = row.status, row.details
    state = Text(status.state, STATE_STYLES.get(status.state, "dim"))
    if details is None:
        return [status.name, status.version, state, "", "", ""]
    model = details.description
    ports = [*map(port_text, model.inputs), *(f"→ {port_text(port)}" for port in model.outputs)]
    return [status.name, status.version, state, ", ".join(details.devices), str(details.slots), Text("\n".join(ports))]


def _port_document(port: PortDescription) -> dict[str, str]:
    return {"name": port.oip_name, "type": port.element_type.type_name, "shape": str(port.partial_shape)}
