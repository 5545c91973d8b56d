"""Files that commands write, either completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from inferwire_cli.terminal import CommandError, MisuseError
from inferwire_proto.host.bounded_files import why_not_read


def check_target(flag: str, path: Path, suffixes: Sequence[str]) -> None:
    """Refuse a file that could not be written, before the command does the work whose result goes there.

    Raises:
        MisuseError: For a file of another kind, a folder, or a file whose folder does not exist.
    """
    if path.suffix.lower() not in suffixes:
        raise MisuseError(f"{flag} is '{path}', expected a file that ends in {', '.join(suffixes)}")
    if not path.parent.is_dir():
        raise MisuseError(f"{flag} is '{path}', and there is no folder '{path.parent}'")
    if path.is_dir():
        raise MisuseError(f"{flag} is '{path}', which is a folder, expected a file")


def write_whole(flag: str, path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a file beside an existing one, and replace that with it when all of it is written.

    Raises:
        CommandError: If it cannot be written; an existing file stays as it is.
    """
    try:
        place = path.resolve()
        if place.exists() and not place.is_file():  # a device or a pipe, which has no content to keep
            with place.open("wb") as file:
                write(file)
        else:
            _replace(place, write)
    except OSError as error:
        raise CommandError(f"{flag} is '{path}', which cannot be written: {why_not_read(error)}") from error


def _replace(place: Path, write: Callable[[BinaryIO], None]) -> None:
    beside = place.with_name(f".{token_hex(8)}.part")
    mode = None
    with suppress(FileNotFoundError), place.open("r+b") as file:  # fails if the user may not write to it
        mode = os.fstat(file.fileno()).st_mode
    try:
        with beside.open("xb") as file:
            write(file)
        if mode is not None:
            beside.chmod(mode)
        beside.replace(place)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
