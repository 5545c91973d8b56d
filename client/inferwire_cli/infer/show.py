"""One inference, from the command line's inputs to the printed outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from zipfile import ZipFile

import numpy as np

from inferwire.transport.executions import Timings
from inferwire.transport.operator_calls import ModelDetails
from inferwire_cli.files import check_target, write_whole
from inferwire_cli.infer.answers import Answer, as_document, guesses, lines, numbers_of
from inferwire_cli.infer.elements import Array, as_input
from inferwire_cli.infer.pictures import PixelOptions
from inferwire_cli.infer.values import notes, pixel_notes, read_inputs, require_all
from inferwire_cli.named_model import named_model
from inferwire_cli.named_server import NamedServer, named_server
from inferwire_cli.terminal import CommandError, ending_in_a_code, new_console
from inferwire_proto.host.bounded_files import MOST_LABEL_BYTES, read_text, why_not_read


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for."""

    name: str
    version: str
    inputs: tuple[str, ...]
    pixels: PixelOptions
    top: int
    labels: Path | None
    save: Path | None
    as_json: bool


def show(wanted: Wanted, address: str | None, root_certificates: Path | None) -> int:
    """Run the inference, print and save its outputs; give the exit code."""
    return ending_in_a_code(lambda: _show(wanted, named_server(address, root_certificates)))


def _show(wanted: Wanted, server: NamedServer) -> None:
    if wanted.save:
        check_target("--save", wanted.save, (".npz",))
    with server.calls() as calls:
        model = named_model(calls, wanted.name, wanted.version)
        served_labels = () if wanted.labels else calls.labels(wanted.name, wanted.version)
    labels = read_labels(wanted.labels) if wanted.labels else served_labels
    ports = model.description.inputs
    for note in (*notes(wanted.inputs, ports), *pixel_notes(wanted.inputs, ports, wanted.pixels)):
        new_console(stderr=True).print(note, soft_wrap=True)
    values = read_inputs(wanted.inputs, ports, wanted.pixels)
    require_all(values, ports, wanted.name)
    answers, timings = _infer(wanted, server, model, values)
    if wanted.labels and not any(guesses(answer, labels, 1) for answer in answers):
        outputs = ", ".join(answer.heading for answer in answers)
        raise CommandError(f"{wanted.labels} has {len(labels)} labels, and no output counts so many classes: {outputs}")
    if wanted.save:
        save(wanted.save, answers)
    if wanted.as_json:
        _print_document(wanted, model, answers, timings, labels)
    else:
        _print_lines(wanted, model, answers, timings, labels)


def _infer(
    wanted: Wanted, server: NamedServer, model: ModelDetails, values: Mapping[int, Array]
) -> tuple[list[Answer], Timings]:
    core = server.core()
    try:
        request = core.served_model(wanted.name, wanted.version or None).create_infer_request()
        outputs = request.infer({at: as_input(value) for at, value in values.items()})
        ports = model.description.outputs
        answers = [Answer(port, numbers_of(outputs[at], port.element_type)) for at, port in enumerate(ports)]
    except (TypeError, ValueError, RuntimeError) as error:
        raise CommandError(" ".join(str(error).split())) from error
    finally:
        core.close()
    return answers, request.timings


def save(path: Path, answers: Sequence[Answer]) -> None:
    """Write every output by its name, as `numpy.load` reads them.

    Raises:
        CommandError: If the file cannot be written.
    """

    def write(file: BinaryIO) -> None:
        # numpy.savez takes names as keywords beside its own parameters, and an output may be called `file`.
        with ZipFile(file, "w") as archive:
            for answer in answers:
                with archive.open(f"{answer.port.oip_name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, answer.array, allow_pickle=False)

    write_whole("--save", path, write)


def read_labels(path: Path) -> tuple[str, ...]:
    """Read the classes' names, one a line.

    Raises:
        CommandError: If they cannot be read.
    """
    try:
        lines = read_text(path, MOST_LABEL_BYTES).splitlines()
    except (OSError, ValueError) as error:
        raise CommandError(f"--labels is '{path}', which cannot be read: {why_not_read(error)}") from error
    return tuple(line.strip() for line in lines)


def _print_lines(
    wanted: Wanted, model: ModelDetails, answers: Sequence[Answer], timings: Timings, labels: Sequence[str]
) -> None:
    console = new_console()
    total_ms = timings.server_ms + timings.wire_ms
    console.print(
        f"{wanted.name} version {model.description.version} on {', '.join(model.devices)}: {total_ms:.1f} ms "
        f"(queue {timings.queue_ms:.2f}, inference {timings.inference_ms:.2f}, wire {timings.wire_ms:.2f})"
    )
    for answer in answers:
        for line in lines(answer, labels, wanted.top):
            console.print(line, soft_wrap=True)


def _print_document(
    wanted: Wanted, model: ModelDetails, answers: Sequence[Answer], timings: Timings, labels: Sequence[str]
) -> None:
    document = {
        "model": wanted.name,
        "version": model.description.version,
        "queue_ms": timings.queue_ms,
        "inference_ms": timings.inference_ms,
        "wire_ms": timings.wire_ms,
        "outputs": [as_document(answer, labels, wanted.top) for answer in answers],
    }
    print(json.dumps(document))  # noqa: T201 - what the command is for
