"""The file of API keys, as it is on disk."""

from __future__ import annotations

from pathlib import Path

from inferwire_proto.host.bounded_files import read_text
from inferwire_server.core.api_keys import ApiKeys
from inferwire_server.errors import ServingError, invalid_input


def read_api_keys(file: Path) -> ApiKeys:
    """Read the keys that callers may show.

    Raises:
        ServingError: INVALID_INPUT if the file cannot be read, or does not have a key in each line.
    """
    try:
        return ApiKeys.parse(read_text(file))
    except OSError as error:
        raise invalid_input(f"--api-key-file is '{file}', which cannot be read: {error.strerror}") from error
    except ServingError as error:
        raise invalid_input(f"--api-key-file is '{file}', which cannot be used: {error.message}") from error
