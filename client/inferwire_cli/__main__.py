"""The entry point of the `inferwire` command. Must start without any package of an extra."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from inferwire_cli.exit_codes import FAILED, INTERRUPTED, MISUSE
from inferwire_cli.extras import MissingExtraError, needs_extra
from inferwire_cli.streams import complain, flush_or_forget


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    prepare_streams()
    try:
        return run(words)
    except MissingExtraError as missing:
        complain(str(missing))
        return MISUSE
    except KeyboardInterrupt:
        # Loading the commands takes long enough for somebody to think better of it.
        return INTERRUPTED
    except OSError as error:
        # Help has nowhere to go; commands tell of what they cannot print themselves.
        flush_or_forget(sys.stdout)
        if isinstance(error, BrokenPipeError):  # who reads has had enough, as `head` does
            return 0
        complain(f"inferwire: {error}")
        return FAILED


def prepare_streams() -> None:
    """Let whatever is printed go somewhere, and in signs that the terminal, or file, has."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # who started this has closed it
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open till the end
    if os.environ.get("COLUMNS") == "0":
        del os.environ["COLUMNS"]  # some terminals say so, and rich would write nothing
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def run(words: Sequence[str]) -> int:
    """Load the commands and run the one that the words name."""
    # The server's extra brings the command line too: naming `cli` here would only lead to the next gap.
    serving = words[:1] == ["serve"]
    if serving:
        # A container's first process is ended by no signal that it does not handle, and to import the server takes a
        # while. It handles this one itself once it serves.
        signal.signal(signal.SIGTERM, _end)
    else:  # the server sets its own
        # gRPC writes what its calls raise to stderr as well, before the command's sentence. It reads this as it is
        # imported, and later is too late.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    with needs_extra("server" if serving else "cli", "inferwire serve" if serving else "the inferwire command"):
        from inferwire_cli.commands import run_command
    return run_command(words)


def _end(number: int, _: object) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
