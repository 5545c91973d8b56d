"""The entry point of the `inferwire` command. Until `main` begins, Python handles signals in its own way."""

from __future__ import annotations

import sys

from inferwire_proto.host.ending_signals import end_at_once


def main(words: list[str] | None = None) -> int:
    """Run the command line and return its exit code. Unless a command is at work, Ctrl-C ends it without a message."""
    end_at_once("SIGINT")
    from inferwire_cli.command_line import run

    return run(sys.argv[1:] if words is None else words)


if __name__ == "__main__":
    sys.exit(main())
