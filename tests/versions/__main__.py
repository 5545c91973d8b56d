"""Run the tests with the oldest packages that pyproject.toml admits, and with the newest that there are.

`make check` does neither: it takes the newest packages that the tools beside them can live with, which hold back some.
Makes an environment for each in build/versions, once; delete that folder to look for newer packages.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / "build/versions"

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

OF_THE_CHECKOUT = "tests/proto/test_stubs_fresh.py"
"""A test among them that is one of the checkout's files all the same, and needs their tools."""


def uv() -> Path:
    """Give the tool that resolves and installs, and install it first if it is not there."""
    folder = ENVIRONMENTS / "uv"
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        pip = [folder / "bin/python", "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)
        subprocess.run([*pip, "--group", f"{ROOT}/pyproject.toml:versions"], check=True)
        (folder / "complete").touch()
    return folder / "bin/uv"


def environment(age: str) -> Path:
    """Give the folder of an environment with packages of this age, and make it first if it is not there."""
    folder = ENVIRONMENTS / age
    if not (folder / "complete").exists():
        print(f"installing the {age} packages in {folder.relative_to(ROOT)}", flush=True)
        tool = uv()
        subprocess.run([tool, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
        install = [tool, "pip", "install", "--quiet", "--python", folder, "--resolution", RESOLUTIONS[age]]
        subprocess.run([*install, "--editable", f"{ROOT}[{EXTRAS}]"], check=True)
        pinned = folder / "pinned.txt"
        frozen = [tool, "pip", "freeze", "--python", folder, "--exclude-editable"]
        pinned.write_bytes(subprocess.run(frozen, check=True, capture_output=True).stdout)
        # Overrides, and not constraints: what the tests need besides may not ask for other versions of these.
        subprocess.run([*install, "--override", pinned, "--group", f"{ROOT}/pyproject.toml:test"], check=True)
        (folder / "complete").touch()
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument("--only", choices=RESOLUTIONS, help="one of the two")
    parser.add_argument("suites", nargs="*", default=SUITES, metavar="TESTS", help="some tests instead of all suites")
    given = parser.parse_args()
    ages = [given.only] if given.only else list(RESOLUTIONS)
    failed: list[str] = []
    for age in ages:
        print(f"running the tests with the {age} packages", flush=True)
        command = [environment(age) / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        if subprocess.run([*command, "--ignore", OF_THE_CHECKOUT, *given.suites], cwd=ROOT, check=False).returncode:
            failed.append(age)
    print(f"failed with the {' and the '.join(failed)} packages" if failed else f"passed: {', '.join(ages)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
