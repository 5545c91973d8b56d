"""How commands print, and how they fail: one sentence on stderr and an exit code. Needs the extra `cli`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from inferwire.errors import WHERE_KEYS, InferwireError
from inferwire.transport.unreachable import WHERE_ADDRESSES, WHERE_CERTIFICATES
from inferwire_cli.exit_codes import FAILED, INTERRUPTED, MISUSE
from inferwire_cli.interrupts import interruptible, was_interrupted
from inferwire_cli.streams import complain, flush_or_forget
from inferwire_proto.control_characters import written_out
from inferwire_proto.openvino_errors import without_places

_LINE_ENDS = re.compile(r"\s*\n\s*")

_PLACES_OF_COMMANDS = {
    WHERE_ADDRESSES: "as --address or in INFERWIRE_ADDRESS",
    WHERE_CERTIFICATES: "as --root-certificates, or in INFERWIRE_ROOT_CERTIFICATES",
    WHERE_KEYS: "in INFERWIRE_API_KEY",
}
"""Where a command line takes what a program gives to `Core()`, by the SDK's words for it."""

PIPE_WIDTH = 200
"""The width of tables in a pipe: a program reads them line by line."""


class CommandError(Exception):
    """A command cannot do what it was asked for; the message says why in a sentence."""

    exit_code = FAILED


class MisuseError(CommandError):
    """A command line asks for something that makes no sense."""

    exit_code = MISUSE


class _Printer(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Give the segments to print; only rich's own may have control characters."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=written_out(segment.text))

    def on_broken_pipe(self) -> None:
        """Raise, so that `ending_in_a_code` ends the command: rich would end the process here, as a failure."""
        raise BrokenPipeError


def new_console(*, stderr: bool = False) -> Console:
    """Make a console that is as wide as the terminal, and has no colours if there is none."""
    stream = sys.stderr if stderr else sys.stdout
    is_piped = not stream.isatty() and "COLUMNS" not in os.environ
    width = PIPE_WIDTH if is_piped else None
    # Printed names may have brackets and colons, which rich would take for its markup.
    return _Printer(file=stream, width=width, highlight=False, markup=False, emoji=False)


def new_table() -> Table:
    """Make a table without lines, whose columns are two characters apart."""
    return Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))


def ending_in_a_code(work: Callable[[], int | None]) -> int:
    """Do a command's work and give its exit code; an error is printed as a sentence."""
    try:
        with interruptible():
            code = work() or 0
            # Only this writes the buffered output to a pipe.
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does.
        flush_or_forget(sys.stdout)
        return 0
    except BaseException as error:
        if was_interrupted(error):
            code, sentence = INTERRUPTED, ""
        elif (explained := _explained(error)) is None:
            raise
        else:
            code, sentence = explained
    else:
        return code
    flush_or_forget(sys.stdout)
    if sentence:
        complain(f"inferwire: {in_short(advice_of_commands(sentence))}")
    return code


def _explained(error: BaseException) -> tuple[int, str] | None:
    """Give the exit code and the sentence for an error; None if it is a bug."""
    match error:
        case CommandError():
            return error.exit_code, str(error)
        case InferwireError() | OSError():
            return FAILED, str(error)
        case UnicodeEncodeError():
            # Bytes of the command line that are not UTF-8 are lone surrogates in its texts.
            return MISUSE, f"{str(error.object)!a} is not in UTF-8, as names and texts have to be"
        case MemoryError():
            return FAILED, f"this takes more memory than there is: {error}"
        case _:
            return None


def advice_of_commands(sentence: str) -> str:
    """Name flags in place of the arguments that the client, which is made for programs, names."""
    for of_programs, of_commands in _PLACES_OF_COMMANDS.items():
        sentence = sentence.replace(of_programs, of_commands)
    return sentence


def in_short(text: str) -> str:
    """Put a server's message into one line, without the places in OpenVINO's sources that it came through."""
    return written_out(_LINE_ENDS.sub(" ", without_places(text)))
