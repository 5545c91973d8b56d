"""Says which extra a command needs where one of its packages is missing. Imports nothing itself."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

OURS = ("inferwire", "inferwire_cli", "inferwire_proto", "inferwire_server")


class MissingExtraError(Exception):
    """A command's packages are not installed; the message names them and the extra that brings them."""


@contextmanager
def needs_extra(extra: str, command: str) -> Generator[None]:
    """Turn the failed import of somebody else's package into the sentence that names the extra.

    Raises:
        MissingExtraError: A package that the extra brings could not be found.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or "").split(".")[0]
        if not package or package in OURS:
            raise  # a wrong import of our own is a bug, not a missing extra
        remedy = f"pip install 'inferwire[{extra}]'"
        raise MissingExtraError(f"{command} needs the package '{package}', which is missing: {remedy}") from missing
