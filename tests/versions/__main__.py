"""Run the tests of client and server with the oldest packages that pyproject.toml admits, and with the newest.

`make check` does neither: it takes the newest packages that the tools beside them can live with, which hold back some.
Makes an environment for each in build/versions, and makes it anew once pyproject.toml has changed. Delete one to have
it look for newer packages.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.environments import python_of

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / "build/versions"

UV = "uv>=0.9"
"""Resolves to the oldest packages, which pip cannot."""

EXTRAS = "server,cli,tokenizers,traces"
RESOLUTIONS: Mapping[str, str] = MappingProxyType({"oldest": "lowest-direct", "newest": "highest"})
"""What uv takes of each package that pyproject.toml names."""

SUITES = (
    "tests/cli",
    "tests/client",
    "tests/core",
    "tests/engine",
    "tests/faults",
    "tests/host",
    "tests/mirror",
    "tests/openvino_backend",
    "tests/proto",
    "tests/repository",
    "tests/service",
    "tests/transport",
    "tests/workers",
)
"""The tests of what is installed, and not those of the checkout's files."""

OF_THE_CHECKOUT = ("tests/proto/test_baseline.py", "tests/proto/test_stubs_fresh.py")
"""Tests among them that are of the checkout's files all the same, and need their tools."""


def python(age: str) -> Path:
    """Give the Python that has packages of this age, and make it first if need be."""
    folder, project = ENVIRONMENTS / age, ROOT / "pyproject.toml"

    def fill(interpreter: Path) -> None:
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", UV], check=True)
        uv = [interpreter.with_name("uv"), "pip"]
        install = [*uv, "install", "--quiet", "--python", interpreter, "--resolution", RESOLUTIONS[age]]
        subprocess.run([*install, "--editable", f"{ROOT}[{EXTRAS}]"], check=True)
        frozen = [*uv, "freeze", "--python", interpreter, "--exclude-editable"]
        pinned = folder / "pinned.txt"
        pinned.write_bytes(subprocess.run(frozen, check=True, capture_output=True).stdout)
        # Overrides, and not constraints: what the tests need besides may not ask for other versions of these.
        subprocess.run([*install, "--override", pinned, "--group", f"{project}:test"], check=True)

    return python_of(folder, project.read_text(), fill)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument("--only", choices=RESOLUTIONS, help="one of the two")
    parser.add_argument("suites", nargs="*", default=SUITES, metavar="TESTS", help="some tests instead of all suites")
    given = parser.parse_args()
    ages = [given.only] if given.only else list(RESOLUTIONS)
    failed: list[str] = []
    for age in ages:
        print(f"running the tests with the {age} packages", flush=True)
        command = [python(age), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        ignored = [f"--ignore={path}" for path in OF_THE_CHECKOUT]
        if subprocess.run([*command, *ignored, *given.suites], cwd=ROOT, check=False).returncode:
            failed.append(age)
    print(f"failed with the {' and the '.join(failed)} packages" if failed else f"passed: {', '.join(ages)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
