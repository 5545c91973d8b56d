"""Says which extra a command needs if one of its packages is missing. Imports only the standard library."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

OURS = ("inferwire", "inferwire_cli", "inferwire_proto", "inferwire_server")


class MissingExtraError(Exception):
    """A command's packages are not installed, or cannot be; the message names them and what would help."""


def needs_linux(command: str) -> MissingExtraError:
    """Say that a command does not run here, because it starts a server."""
    return MissingExtraError(
        f"{command} does not run on this system ({sys.platform}): a server needs Linux; commands that call one do not"
    )


@contextmanager
def needs_extra(extra: str, command: str) -> Generator[None]:
    """Turn the failed import of a third-party package into a sentence that says what to install.

    Raises:
        MissingExtraError: A package that the extra brings could not be found, or is incompatible with another; or this
            system's Python lacks a module that it has on other systems.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or "").split(".")[0]
        if not package or package in OURS:
            raise  # a wrong import of our own is a bug, not a missing extra
        if package in sys.stdlib_module_names:
            raise MissingExtraError(
                f"{command} does not run on this system ({sys.platform}), whose Python has no module '{package}'; "
                "it does on Linux"
            ) from missing
        remedy = f"pip install '.[{extra}]' in a checkout of inferwire"
        raise MissingExtraError(f"{command} needs the package '{package}', which is missing: {remedy}") from missing
    except Exception as error:
        if type(error).__module__ != "google.protobuf.runtime_version":
            raise
        # Some packages require an older protobuf than gRPC's packages were generated for, and pip then installs that.
        raise MissingExtraError(
            f"{command} needs a newer protobuf than the one here, which another package has brought: {error} "
            "Install that package in an environment of its own"
        ) from error
