"""Fuzz what reads the network: every REST call by its documentation, every codec by coverage. `--help` says how long.

Makes an environment of its own in build/fuzz, once, with the packages of the group `fuzz`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.environments import python_of
from tests.fuzz.targets import TARGETS

from inferwire_cli.server_process import running_server

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build/fuzz"
FOUND = ENVIRONMENT / "found"
"""Where bytes are kept that made a target fail."""

MODEL = "digits_mlp"
CHECKS = ("not_a_server_error", "status_code_conformance", "response_schema_conformance", "unsupported_method")
EXPECTED_ERRORS = "/v2/repository/models/|/trace/setting|/v2/(system|cuda)sharedmemory/"
"""Calls that answer with a 5xx for what a caller sends: 500 if a load fails, as the protocol's clients expect, and
501 for what is not offered, or not by a server that is started without it."""


def python() -> Path:
    """Give the Python that has the packages, and make it first if it does not exist or they are others by now."""
    project = ROOT / "pyproject.toml"

    def fill(interpreter: Path) -> None:
        pip = [interpreter, "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)
        subprocess.run([*pip, "--editable", f"{ROOT}[server]", "--group", f"{project}:fuzz"], check=True)

    return python_of(ENVIRONMENT, project.read_text(), fill)


def fuzz_codecs(interpreter: Path, names: list[str], seconds: int) -> list[str]:
    """Give each target bytes for so long, and name those that failed."""
    failed: list[str] = []
    FOUND.mkdir(exist_ok=True)
    for name in names:
        with TemporaryDirectory() as corpus:
            for index, example in enumerate(TARGETS[name].examples):
                (Path(corpus) / str(index)).write_bytes(example)
            flags = [f"-max_total_time={seconds}", f"-artifact_prefix={FOUND}/{name}-", "-max_len=4096", "-verbosity=0"]
            command = [interpreter, Path(__file__).with_name("codec.py"), name, *flags, corpus]
            done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, errors="replace")
        print(
            f"{name}: nothing found" if done.returncode == 0 else f"{done.stderr}\n{name}: FAILED, see {FOUND}",
            flush=True,
        )
        failed += [] if done.returncode == 0 else [name]
    return failed


def fuzz_rest(interpreter: Path, seconds: int) -> list[str]:
    """Call every REST endpoint as the OpenAPI document says one may, and as it says one may not."""
    flags = ("--allow-model-control", "--log-level", "error")
    with running_server(ROOT / "deploy/models", *flags) as server, TemporaryDirectory() as folder:
        config = Path(folder) / "schemathesis.toml"
        config.write_text(f'[parameters]\n"path.model" = "{MODEL}"\n"path.version" = "1"\n')
        tool = interpreter.with_name("schemathesis")
        address = f"http://{server.http_address}/openapi.json"
        command = [tool, "--config-file", config, "run", address, "--checks", ",".join(CHECKS), "--no-color"]
        limits = [f"--max-time={seconds}", "--exclude-path-regex", EXPECTED_ERRORS]
        is_good = subprocess.run([*command, *limits], cwd=folder, check=False).returncode == 0
    return [] if is_good else ["REST"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=20, help="for each codec; six times as many for REST")
    parser.add_argument("--only", choices=[*TARGETS, "rest"], nargs="*", help="some of them")
    given = parser.parse_args()
    names: list[str] = given.only or [*TARGETS, "rest"]
    interpreter = python()
    failed = fuzz_codecs(interpreter, [name for name in names if name != "rest"], given.seconds)
    failed += fuzz_rest(interpreter, 6 * given.seconds) if "rest" in names else []
    print(f"failed: {', '.join(failed)}" if failed else "nothing found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
