"""What the `inferwire` command says, and with which exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from inferwire_cli.extras import MissingExtraError, needs_extra


def inferwire(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a person would."""
    command = [sys.executable, "-m", "inferwire_cli", *words]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def test_version_is_the_installed_one() -> None:
    done = inferwire("--version")
    assert (done.returncode, done.stdout.strip()) == (0, version("inferwire"))


def test_help_names_the_commands() -> None:
    done = inferwire("--help")
    assert done.returncode == 0
    assert "serve" in done.stdout
    assert "demo" in done.stdout


@pytest.mark.parametrize("width", [80, 120])
def test_serve_help_fits_the_terminal(width: int) -> None:
    done = inferwire("serve", "--help", COLUMNS=str(width))
    assert done.returncode == 0
    assert "--model-repository" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= width


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("serv",), 'Did you mean "serve"?'),
        (("serve", "--http-port", "77777"), "--http-port"),
        (("serve", "--no-such-flag"), "--no-such-flag"),
    ],
)
def test_misuse_is_explained_and_gives_2(words: tuple[str, ...], said: str) -> None:
    done = inferwire(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_environment_variable_is_named() -> None:
    done = inferwire("serve", INFERWIRE_HTTP_PORT="eight")
    assert done.returncode == 2
    assert "INFERWIRE_HTTP_PORT" in done.stderr


def test_somebody_elses_missing_package_names_the_extra() -> None:
    with (
        pytest.raises(MissingExtraError, match=r"'no_such_package'.*pip install '\.\[server\]'"),
        needs_extra("server", "inferwire serve"),
    ):
        raise ModuleNotFoundError("No module named 'no_such_package.part'", name="no_such_package.part")


def test_a_missing_module_of_our_own_is_a_bug_and_stays_one() -> None:
    with pytest.raises(ModuleNotFoundError), needs_extra("server", "inferwire serve"):
        raise ModuleNotFoundError("No module named 'inferwire_server.gone'", name="inferwire_server.gone")
