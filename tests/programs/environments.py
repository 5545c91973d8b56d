"""Environments of their own for programs from PyPI: made once, under `build/programs`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.environments import python_of

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/programs"


@dataclass(frozen=True, slots=True)
class Environment:
    """The packages and variables that programs need.

    Attributes:
        name: The name of its folder.
        packages: The packages to install from PyPI.
        has_client: Whether this project's client is installed, too.
        variables: The variables of the environment that its programs get besides the present ones.
        without: Packages that come with the others and are uninstalled again.
    """

    name: str
    packages: tuple[str, ...]
    has_client: bool = False
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    without: tuple[str, ...] = ()

    def python(self) -> Path:
        """Give the Python that has the packages, and make it first if it does not exist or has others."""
        wanted = " ".join((*self.packages, *(f"-{name}" for name in self.without)))
        return python_of(FOLDER / self.name, wanted, self._fill)

    def _fill(self, _: Path) -> None:
        ours = ("--editable", ROOT) if self.has_client else ()
        self.run("-m", "pip", "install", "--quiet", *self.packages, *ours)
        if self.without:
            self.run("-m", "pip", "uninstall", "--quiet", "--yes", *self.without)

    def run(self, *arguments: Path | str) -> str:
        """Run its Python and give what it prints.

        Raises:
            subprocess.CalledProcessError: If it does not end with 0; what it says of that is then shown.
        """
        command = [FOLDER / self.name / "bin/python", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | self.variables)
        if done.returncode != 0:
            print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        done.check_returncode()
        return done.stdout
