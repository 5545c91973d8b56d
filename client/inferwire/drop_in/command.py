"""The command line of `python -m inferwire`.

Owns its options and how Python is started anew. That Python runs the program itself, so that arguments, exit codes,
tracebacks and signals are those of `python PROGRAM`. Processes that the program starts find the mirror too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from argparse import REMAINDER, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from inferwire.transport.address import DEFAULT_ADDRESS, ENVIRONMENT_VARIABLE, parse_address
from inferwire.transport.credentials import API_KEY_VARIABLE, ROOT_CERTIFICATES_VARIABLE, credentials_for

SITE = Path(__file__).parent / "site"
"""The folder with our `sitecustomize`, which each Python runs that has the folder on its path."""

_DESCRIPTION = """\
Run a Python program that was written for openvino, without changing it. Its `import openvino` gives inferwire,
whether openvino is installed or not, so that a server compiles and runs its models.
"""

_EPILOG = f"""\
examples:
  inferwire serve --model-repository models --allow-uploads     a server that takes a program's own models
  python -m inferwire classify.py cat.png                       a program, on {DEFAULT_ADDRESS}
  python -m inferwire --address gpu-box:8001 classify.py cat.png
  python -m inferwire --address gpu-box:8001 -m package.tool    a module, as `python -m` runs it
  python -m inferwire -c 'import openvino; print(openvino.Core().available_devices)'

The API key, if the server needs one, comes from {API_KEY_VARIABLE}. A server with TLS is trusted by the
certificates in the file that {ROOT_CERTIFICATES_VARIABLE} names, else by those of this machine.

Python's own options go before -m inferwire, as in `python -X dev -m inferwire classify.py`.
Processes that the program starts use inferwire too. Whatever openvino has and inferwire lacks raises an
ImportError, AttributeError or RuntimeError that names it.
"""


def main(arguments: Sequence[str], command: Sequence[str]) -> NoReturn:
    """Become the Python that runs the program.

    Args:
        arguments: The arguments after `inferwire`.
        command: The whole command line, with Python's own options, as `sys.orig_argv` has it.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    program = _program(options)
    if not program:
        parser.error("there is no PROGRAM to run; --help shows examples")
    if (word := program[0]).isidentifier() and not Path(word).exists():
        parser.error(
            f"there is no file '{word}'; inferwire's own commands are run as `inferwire {word}`, "
            f"and programs on the PATH by their paths, as $(which {word})"
        )
    if sys.flags.ignore_environment or sys.flags.no_site:
        parser.error("Python's options -E, -I and -S keep the mirror out; run it without them")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SITE), os.environ.get("PYTHONPATH")]))
    if options.address:
        os.environ[ENVIRONMENT_VARIABLE] = options.address
    _check_environment(parser)
    flags = python_options(command, len(arguments))
    _become([sys.executable, *flags, *program])


def _become(command: list[str]) -> NoReturn:
    """Become another program, here the very Python that runs this; on Windows, run it and end as it does.

    A process of Windows cannot become another: `os.execv` starts one there, and ends its own at once, so that whoever
    waits for that goes on too early. It also tears arguments with spaces apart.
    """
    if sys.platform != "win32":
        os.execv(command[0], command)  # noqa: S606 - see above
    signal.signal(signal.SIGINT, _leave_to_the_program)
    sys.exit(subprocess.call(command))  # noqa: S603 - see above


def _leave_to_the_program(_number: int, _frame: FrameType | None) -> None:
    """Do nothing at Ctrl-C: it reaches the program, too, which ends or goes on as it likes."""


def python_options(command: Sequence[str], own: int) -> list[str]:
    """Cut Python's own options out of a command line that ends with `-m inferwire` and `own` more arguments."""
    head = list(command[1 : len(command) - own])
    last = head.pop()
    if last != "inferwire":  # as in -minferwire
        head.append(last.removesuffix("inferwire"))
    options = head.pop().removesuffix("m")
    return head if options == "-" else [*head, options]


def _program(options: Namespace) -> list[str]:
    """Give the part of Python's command line that names the program and its arguments; empty if there is none."""
    for flag, given in (("-c", options.code), ("-m", options.module)):
        if given is not None:
            # If code or a module was glued to its flag, as in -mtool, its arguments are parsed as PROGRAM.
            return [flag, *given, *options.program] if given else []
    return options.program


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="python -m inferwire",
        usage="%(prog)s [--address ADDRESS] (PROGRAM | -c CODE | -m MODULE | -) [ARGS...]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--address",
        metavar="ADDRESS",
        help=f"where `Core()` finds the server: host:port, grpcs://host:port for TLS, grpc://host:port for gRPC alone, "
        f"or unix:path; default: {ENVIRONMENT_VARIABLE}, else {DEFAULT_ADDRESS}",
    )
    parser.add_argument("-c", dest="code", metavar="CODE", nargs=REMAINDER, help="run this code, with its ARGS")
    parser.add_argument("-m", dest="module", metavar="MODULE", nargs=REMAINDER, help="run a module, with its ARGS")
    parser.add_argument(
        "program", metavar="PROGRAM", nargs=REMAINDER, help="a file, or - for standard input, with its ARGS"
    )
    return parser


def _check_environment(parser: ArgumentParser) -> None:
    """Refuse an address or credentials in the environment that `Core()` would refuse in the program."""
    try:
        credentials_for(parse_address())
    except ValueError as error:
        parser.error(str(error))
