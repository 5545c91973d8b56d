"""The demo from start to end: server, photos, four ways, latencies, and nothing left running."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter
from types import FrameType

from inferwire.transport.credentials import API_KEY_VARIABLE
from inferwire_cli.demo.four_ways import MODEL, QUEUE_JOBS, Answer, four_ways
from inferwire_cli.demo.photos import Guess, Photo, best_guesses, load_photo
from inferwire_cli.demo.report import Report
from inferwire_cli.exit_codes import FAILED, INTERRUPTED
from inferwire_cli.extras import needs_linux
from inferwire_cli.server_process import ServerProcess, ServerProcessError, running_server
from inferwire_cli.terminal import CommandError, ending_in_a_code
from inferwire_proto.host.bounded_files import MOST_LABEL_BYTES, read_text, why_not_read

CLASSES = 1000
"""How many classes the model tells apart."""

REQUESTS = {"AsyncInferQueue": 64}
"""How many requests a way makes, taking the photos in turns; `FEW_REQUESTS` if it is not listed."""
FEW_REQUESTS = 16
AT_ONCE = {"start_async + wait": FEW_REQUESTS, "AsyncInferQueue": QUEUE_JOBS}
"""How many requests of a way are under way at once; one if it is not listed."""


def show(models: Path, photo_folder: Path) -> int:
    """Run the demo and return its exit code."""
    return ending_in_a_code(lambda: _show(models, photo_folder))


def _show(models: Path, photo_folder: Path) -> int:
    if sys.platform != "linux":
        raise needs_linux("inferwire demo")
    report = Report(sys.stdout)
    try:
        with interrupted_by(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            run(models, photo_folder, report)
    except KeyboardInterrupt:
        report.done("interrupted; the server has ended")
        return INTERRUPTED
    except ServerProcessError as failure:
        sys.stderr.write(f"\n{failure}\n")
        return FAILED
    return 0


def run(models: Path, photo_folder: Path, report: Report) -> None:
    """Classify the photos in each way while a server runs."""
    labels = read_labels(models / MODEL / "labels.txt")
    photos = read_photos(photo_folder)
    report.begin(f"starting a server on {models}")
    begun = perf_counter()
    # The demo's server requires no key, and one in the environment is for another server.
    os.environ.pop(API_KEY_VARIABLE, None)
    with running_server(models) as server:
        report.done(f"ready after {perf_counter() - begun:.1f} s at {server.grpc_address}")
        report.latencies(classify(server, photos, labels, report), AT_ONCE)
        report.begin("ending the server")
    report.done("done, nothing is left running")


def classify(
    server: ServerProcess, photos: Sequence[Photo], labels: list[str], report: Report
) -> dict[str, Sequence[Answer]]:
    """Take every way once, print the classes it found, and return its answers by the way's name."""
    answers_by_way: dict[str, Sequence[Answer]] = {}
    for name, way in four_ways(server.grpc_address, server.host, server.http_port):
        answers = way(list(islice(cycle(photos), REQUESTS.get(name, FEW_REQUESTS))))
        report.way(name, guesses_by_photo(answers, labels))
        answers_by_way[name] = answers
    return answers_by_way


def guesses_by_photo(answers: Sequence[Answer], labels: list[str]) -> dict[str, list[Guess]]:
    """Give the classes found in each photo, once for each photo, sorted by name."""
    logits = {answer.photo: answer.logits for answer in answers}
    return {photo: best_guesses(logits[photo], labels) for photo in sorted(logits)}


def read_labels(path: Path) -> list[str]:
    """Read the classes' names, one per line.

    Raises:
        CommandError: If they are not there.
    """
    try:
        labels = read_text(path, MOST_LABEL_BYTES).splitlines()
    except (OSError, ValueError) as error:
        raise CommandError(
            f"no class names at {path}: {why_not_read(error)}; run it in inferwire's checkout, or name its folders "
            "with --models and --photos"
        ) from error
    if len(labels) != CLASSES:
        raise CommandError(f"{len(labels)} class names at {path}, expected {CLASSES}, a line each")
    return labels


def read_photos(folder: Path) -> list[Photo]:
    """Read every PNG of the folder.

    Raises:
        CommandError: If there is none.
    """
    photos = [load_photo(path) for path in sorted(folder.glob("*.png")) if path.is_file()]
    if not photos:
        raise CommandError(f"no PNG photos in {folder}; expected at least one")
    return photos


@contextmanager
def interrupted_by(*signals: signal.Signals) -> Generator[None]:
    """Let signals that would end the process at once interrupt it as Ctrl-C does, so that it cleans up."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = [(number, signal.signal(number, interrupt)) for number in signals]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
