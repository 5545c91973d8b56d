"""The commands by name. Importing them needs cyclopts alone: each brings in its side when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from cyclopts import App, CycloptsError, Parameter

from inferwire_cli.bench import bench
from inferwire_cli.demo import demo
from inferwire_cli.exit_codes import MISUSE
from inferwire_cli.infer import infer
from inferwire_cli.models import load, models, unload
from inferwire_cli.serve import serve
from inferwire_cli.top import top
from inferwire_server.flags import environment

HELP = """OpenVINO inference on another machine, through the API its users already know.

To begin, and to see what a command takes:

```
inferwire serve --model-repository FOLDER
inferwire models
inferwire COMMAND --help
```
"""

app = App(
    name="inferwire",
    help=HELP,
    version=lambda: version("inferwire"),
    config=environment(show=False),
    default_parameter=Parameter(negative=()),
)
app.command(serve)
app.command(models)
app.command(infer)
app.command(bench)
app.command(top)
app.command(load)
app.command(unload)
app.command(demo)


def run_command(words: Sequence[str]) -> int:
    """Run the command that the words name and return its exit code; misuse is explained and gives 2."""
    try:
        return app(words, exit_on_error=False, result_action="return_int_as_exit_code_else_zero")
    except CycloptsError:
        return MISUSE
