"""Libraries of further operations: which of them a server has.

They run in the server's process, so that only its operator loads them. A program asks for one by the path of its own
copy, and has it if the server has loaded a library of the same name.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from inferwire.arguments import incompatible
from inferwire.errors import PermissionDenied
from inferwire.not_offered import refuse
from inferwire.transport.protocol import Transport

_SIGNATURES = (
    "(self: Core, library_path: os.PathLike | str | bytes) -> None",
    "(self: Core, extensions: Sequence[Extension]) -> None",
)


def add_extension(owner: object, transport: Transport, args: tuple[Any, ...]) -> None:
    """Make sure that the server has a library.

    Raises:
        TypeError: For other arguments.
        PermissionDenied: If it has not.
    """
    match args:
        case (str() | bytes() | os.PathLike(),):
            _require(transport, Path(os.fsdecode(cast("Any", args[0]))).name)
        case ([] | (),):
            return
        case (_,):
            refuse("add_extension() of operations written in Python")
        case _:
            raise incompatible("add_extension", *_SIGNATURES, invoked=(owner, *args))


def _require(transport: Transport, name: str) -> None:
    loaded = transport.extensions()
    if _stem(name) not in map(_stem, loaded):
        raise PermissionDenied(
            f"Cannot add extension. The server at {transport.address} has not loaded a library '{name}', which its "
            f"operator would name with --extension; it has {_listed(loaded)}"
        )


def _stem(name: str) -> str:
    """Give a library's name without what differs between systems: "lib" before it, an ending behind it."""
    return name.partition(".")[0].removeprefix("lib")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"
