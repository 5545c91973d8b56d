"""Loads and unloads models, and prints the outcome."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from rich.text import Text

from inferwire.errors import ModelNotFound
from inferwire.transport.served_models import which_there_are
from inferwire_cli.named_server import named_server
from inferwire_cli.terminal import CommandError, MisuseError, ending_in_a_code, new_console


def load_model(name: str, address: str | None, root_certificates: Path | None) -> int:
    """Load a model and print which versions are ready then; give the exit code."""

    def work() -> None:
        _require_name(name)
        begun = perf_counter()
        with named_server(address, root_certificates).calls() as calls:
            with new_console(stderr=True).status(Text(f"loading {name}")):
                try:
                    calls.load(name)
                except ModelNotFound as error:
                    there_are = which_there_are(calls.models())
                    raise CommandError(f"the server's repository has no model '{name}'; {there_are}") from error
            took_s = perf_counter() - begun
            ready = [each.version for each in calls.models() if each.name == name and each.state == "ready"]
        versions = "version " + ready[0] if len(ready) == 1 else "versions " + ", ".join(ready)
        new_console().print(f"{name}: {versions} ready after {took_s:.1f} s")

    return ending_in_a_code(work)


def unload_model(name: str, address: str | None, root_certificates: Path | None) -> int:
    """Unload a model; give the exit code."""

    def work() -> None:
        _require_name(name)
        with named_server(address, root_certificates).calls() as calls:
            # The server takes an unknown model for an unloaded one; for a person the name is a typing error.
            models = calls.models()
            if not any(each.name == name for each in models):
                raise CommandError(f"the server has no model '{name}'; {which_there_are(models)}")
            with new_console(stderr=True).status(Text(f"unloading {name}")):
                calls.unload(name)
        new_console().print(f"{name}: unloaded")

    return ending_in_a_code(work)


def _require_name(name: str) -> None:
    if not name:
        raise MisuseError("the model's name is empty, expected one that `inferwire models` lists")
