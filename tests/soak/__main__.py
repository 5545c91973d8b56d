"""Soak a server: mixed load and faults, then rest, then the same for longer. `python -m tests.soak --help`.

At rest after the load it has to hold what it held at rest after the warm-up, and have counted every job.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic

from tests.soak import oip_clients, rest_clients, sdk_clients
from tests.soak.sample import Sample, lay_out
from tests.soak.tally import OK, Tally
from tests.soak.watch import Holding, at_rest, holding, is_quiet, miscounted

from inferwire_cli.server_process import ServerProcess, running_server

Client = Callable[[str, Sample, Tally, Random], None]

FLAGS = (
    *("--device", "CPU", "--queue-capacity", "64", "--keep-jobs-s", "2", "--session-grace-s", "1"),
    *("--allow-uploads", "--allow-model-control", "--log-level", "warning"),
    *("--property", "INFERENCE_PRECISION_HINT=f32"),
)
OVER_GRPC: tuple[Client, ...] = (
    *(sdk_clients.infer, sdk_clients.infer, sdk_clients.queue, sdk_clients.cancel),
    *(
        sdk_clients.states,
        sdk_clients.pairs,
        sdk_clients.pairs,
        sdk_clients.upload,
        oip_clients.calls,
        oip_clients.calls,
    ),
)
OVER_HTTP: tuple[Client, ...] = (rest_clients.infer, rest_clients.infer, rest_clients.jobs, rest_clients.reload)
WARM_UP_PART = 1 / 3
MORE_THREADS = 20
"""How many more there may be after the load: OpenVINO keeps those of as many models as were ever there at once, and
that is one or two models more now and then, a tiny one of them compiled twice."""
MORE_FILES = 4
PROGRESS_S = 5.0


def load(server: ServerProcess, sample: Sample, seconds: float, seed: int) -> Tally:
    """Put the server under load for so long, with a client killed now and then."""
    tally = Tally()
    clients = [(server.grpc_address, client) for client in OVER_GRPC]
    clients += [(f"{server.host}:{server.http_port}", client) for client in OVER_HTTP]
    threads = [
        Thread(target=_guarded, args=(client, address, sample, tally, Random(seed + number)))
        for number, (address, client) in enumerate(clients)
    ]
    threads.append(Thread(target=_kill_clients, args=(server.grpc_address, tally, Random(seed))))
    for thread in threads:
        thread.start()
    try:
        _show_progress(server, tally, seconds)
    finally:
        tally.stop.set()
        for thread in threads:
            thread.join()
    return tally


def _guarded(client: Client, address: str, sample: Sample, tally: Tally, random: Random) -> None:
    try:
        client(address, sample, tally, random)
    except Exception:  # noqa: BLE001 - whatever a client did not expect is what a soak looks for
        tally.surprise(traceback.format_exc())


def _kill_clients(address: str, tally: Tally, random: Random) -> None:
    command = [sys.executable, "-m", "tests.soak.doomed", address]
    while not tally.stop.is_set():
        process = subprocess.Popen(command)
        tally.stop.wait(1.0 + random.random())
        has_ended = process.poll() is not None
        process.kill()
        process.wait()
        tally.add("client killed", "ended by itself" if has_ended else OK)


def _show_progress(server: ServerProcess, tally: Tally, seconds: float) -> None:
    began = monotonic()
    while (left := began + seconds - monotonic()) > 0 and not tally.stop.wait(min(left, PROGRESS_S)):
        passed = monotonic() - began
        sys.stderr.write(f"  {passed:4.0f}/{seconds:.0f} s  {tally.answered:9,} answers  {holding(server)}\n")


def faults(server: ServerProcess, before: Holding, after: Holding, most_mib: float, more_threads: int) -> list[str]:
    """Say what the server has not given back, and what it has not counted."""
    found = [f"counted wrongly: {sentence}" for sentence in miscounted(server)]
    if not is_quiet(server):
        found.append("a job, a caller's states or an uploaded model is left")
    if after.rss_mib > before.rss_mib + most_mib:
        found.append(f"RSS grew from {before.rss_mib:.0f} to {after.rss_mib:.0f} MiB, {most_mib:g} more are allowed")
    if after.threads > before.threads + more_threads:
        found.append(f"threads grew from {before.threads} to {after.threads}, {more_threads} more are allowed")
    if after.files > before.files + MORE_FILES:
        found.append(f"open files grew from {before.files} to {after.files}, {MORE_FILES} more are allowed")
    return found


def summary(tally: Tally, before: Holding, after: Holding) -> str:
    """Write what was asked and answered, and what the server held."""
    lines = ["", "| deed | outcomes |", "|---|---|"]
    for deed, outcomes in tally.rows().items():
        lines.append(f"| {deed} | {', '.join(f'{count:,} {outcome}' for outcome, count in outcomes.most_common())} |")
    return "\n".join([*lines, "", f"at rest after the warm-up: {before}", f"at rest after the load:    {after}", ""])


def soak(minutes: float, seed: int, most_mib: float, more_threads: int) -> list[str]:
    """Soak a server and say what is wrong with it."""
    with TemporaryDirectory() as folder:
        sample = lay_out(Path(folder))
        with running_server(Path(folder), *FLAGS) as server:
            warm_up_s = minutes * 60 * WARM_UP_PART
            warm_up = load(server, sample, warm_up_s, seed)
            before = at_rest(server)
            tally = warm_up if warm_up.surprises else load(server, sample, minutes * 60 - warm_up_s, seed + 1000)
            after = at_rest(server, before.files)
            sys.stdout.write(summary(tally, before, after))
            return [*tally.surprises, *faults(server, before, after, most_mib, more_threads)]


def main() -> int:
    """Run the soak; 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long, the warm-up of a third included")
    parser.add_argument("--seed", type=int, default=0, help="what the clients' choices follow from")
    parser.add_argument("--most-mib", type=float, default=32.0, help="how much more memory it may hold at the end")
    parser.add_argument("--more-threads", type=int, default=MORE_THREADS, help="how many more threads it may have")
    arguments = parser.parse_args()
    found = soak(arguments.minutes, arguments.seed, arguments.most_mib, arguments.more_threads)
    for sentence in found:
        sys.stdout.write(f"WRONG {sentence}\n")
    sys.stdout.write("" if found else "flat: nothing is left, every job is counted\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
