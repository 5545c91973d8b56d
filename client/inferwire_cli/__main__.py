"""The entry point of the `inferwire` command. Until `main` has begun, a signal does what Python has it do."""

from __future__ import annotations

import sys

from inferwire_proto.ending_signals import end_at_once


def main(words: list[str] | None = None) -> int:
    """Run the command line and return its exit code. Where no command is at work, Ctrl-C ends it without a word."""
    end_at_once("SIGINT")
    from inferwire_cli.command_line import run

    return run(sys.argv[1:] if words is None else words)


if __name__ == "__main__":
    sys.exit(main())
