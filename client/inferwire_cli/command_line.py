"""The command line, from its words to an exit code. Must start without any package of an extra."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from inferwire_cli.exit_codes import FAILED, INTERRUPTED, MISUSE
from inferwire_cli.extras import MissingExtraError, needs_extra
from inferwire_cli.streams import complain, flush_or_forget
from inferwire_proto.host.ending_signals import end_at_once


def run(words: Sequence[str]) -> int:
    """Run the command that the words name and return its exit code; if it cannot run, say why in a sentence."""
    prepare_streams()
    try:
        return _run(words)
    except MissingExtraError as missing:
        complain(str(missing))
        return MISUSE
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        # Help cannot be printed; commands themselves report what they cannot print.
        flush_or_forget(sys.stdout)
        if isinstance(error, BrokenPipeError):  # the reader has closed the pipe, as `head` does
            return 0
        complain(f"inferwire: {error}")
        return FAILED


def prepare_streams() -> None:
    """Make sure that all can be printed, if only to nowhere, and in characters that the terminal or file has."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the starting process has closed it
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open till the end
    if os.environ.get("COLUMNS") == "0":
        del os.environ["COLUMNS"]  # some terminals set it, and rich would write nothing
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def _run(words: Sequence[str]) -> int:
    """Load the commands and run the one that the words name."""
    # The server's extra brings the command line too: naming `cli` here would only lead to the next gap.
    serving = words[:1] == ["serve"]
    if serving:
        end_at_once("SIGTERM")  # it handles signals itself once it serves
    else:  # the server sets its own
        # gRPC also writes the errors of its calls to stderr, before the command's sentence. It reads this variable only
        # when it is imported.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    with needs_extra("server" if serving else "cli", "inferwire serve" if serving else "the inferwire command"):
        from inferwire_cli.commands import run_command
    return run_command(words)
