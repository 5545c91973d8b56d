"""The commands by name. Importing them needs only cyclopts (with its rich): each imports its side when called."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    CycloptsPanel,
    Parameter,
    UnknownOptionError,
    UnusedCliTokensError,
)
from rich.console import Console

from inferwire_cli.bench import bench
from inferwire_cli.demo import demo
from inferwire_cli.exit_codes import MISUSE
from inferwire_cli.infer import infer
from inferwire_cli.models import load, models, unload
from inferwire_cli.other_servers import FLAGS
from inferwire_cli.top import top
from inferwire_proto.host.flags import environment

HELP = """OpenVINO inference on another machine, through the API its users already know.

To start a server, list its models, and see the options of a command:

```
inferwire serve --model-repository FOLDER
inferwire models
inferwire COMMAND --help
```
"""

_INSTEAD = {
    "serve": "models are named by a flag: --model-repository",
    "infer": "inputs are named by a flag: -i",
    "bench": "inputs are named by a flag: -i",
}
"""What a superfluous word may have been meant as, by the command that it was given to."""


def _explained(error: CycloptsError) -> Any:
    """Show what is wrong and whose help to read; for a superfluous word, also what it may have been meant as.

    Of a switch that is neither on nor off, cyclopts says that the value cannot be converted, and not what could. For a
    flag of another server, it would ask whether one was meant that is only spelled alike.
    """
    sentence, commands = str(error), error.command_chain or ()
    if isinstance(error, UnusedCliTokensError) and (words := error.unused_tokens):
        instead = "".join(f"; {_INSTEAD[name]} {words[0]}" for name in commands if name in _INSTEAD)
        sentence = f"unexpected {', '.join(map(repr, words))}{instead}"
    elif isinstance(error, CoercionError) and error.target_type is bool and (token := error.token):
        sentence = f"Invalid value for {token.keyword}: expected true or false, got {token.value!r}"
    elif isinstance(error, UnknownOptionError) and commands == ("serve",):
        flag = error.token.keyword or error.token.value
        if (meant := FLAGS.get(flag.replace("_", "-"))) is not None:
            sentence = f"Unknown option: {flag}. Did you mean {meant}?"
    return CycloptsPanel(f"{sentence}\nSee `{' '.join(('inferwire', *commands))} --help`.")


class _Console(Console):
    """The console that prints help."""

    def on_broken_pipe(self) -> None:
        """Raise, so that the command line ends the command: rich would end the process here, as a failure."""
        raise BrokenPipeError


_LEAST_COLUMNS = 20
"""The least width of help: below three columns, cyclopts never stops breaking the names of flags into lines."""

app = App(
    name="inferwire",
    help=HELP,
    version=lambda: version("inferwire"),
    config=environment(show=False),
    default_parameter=Parameter(negative=()),
    error_formatter=_explained,
)
app.command("inferwire_cli.serve:serve", name="serve")  # imported when it is named: its flags are the server's settings
app.command(models)
app.command(infer)
app.command(bench)
app.command(top)
app.command(load)
app.command(unload)
app.command(demo)


def run_command(words: Sequence[str]) -> int:
    """Run the command that the words name and return its exit code; misuse is explained and gives 2."""
    if not words or words[0] in app.help_flags:
        _ = app["serve"]  # which imports it, for its line in the list of all commands
    console = _Console(width=max(_Console().width, _LEAST_COLUMNS))
    try:
        return app(words, console=console, exit_on_error=False, result_action="return_int_as_exit_code_else_zero")
    except CycloptsError:
        return MISUSE
