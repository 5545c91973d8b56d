"""The file of a model's labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError


def read_labels(path: Path) -> tuple[str, ...]:
    """Read a file of one label per line, or a `.json` file that is a list of them.

    Raises:
        ServingError: MODEL_FAILED naming the file.
    """
    try:
        text = path.read_text(encoding="utf-8")
        labels = _listed(text) if path.suffix == ".json" else tuple(line.strip() for line in text.splitlines())
    except RecursionError as error:
        raise ServingError(
            Code.MODEL_FAILED, f"labels {path.name} cannot be read: it is JSON that is nested too deeply"
        ) from error
    except (OSError, ValueError) as error:
        raise ServingError(Code.MODEL_FAILED, f"labels {path.name} cannot be read: {error}") from error
    if not labels:
        raise ServingError(Code.MODEL_FAILED, f"labels {path.name} is empty, expected a label for each class")
    return labels


def _listed(text: str) -> tuple[str, ...]:
    found: object = json.loads(text)
    items = cast("list[object]", found) if isinstance(found, list) else [None]
    if not all(isinstance(item, str) for item in items):
        raise ValueError("it is JSON, expected a list of texts")
    return tuple(str(item) for item in items)
