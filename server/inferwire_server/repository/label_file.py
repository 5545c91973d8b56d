"""The file of a model's labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from inferwire_proto.host.bounded_files import MOST_LABEL_BYTES, read_text, why_not_read
from inferwire_server.repository.setting_values import UnfitValue


def read_labels(folder: Path, name: str) -> tuple[str, ...]:
    """Read a file of one label per line, or a `.json` file that is a list of them.

    Raises:
        UnfitValue: For a file that cannot be read, or has none.
    """
    path = folder / name
    try:
        text = read_text(path, MOST_LABEL_BYTES, is_read_again=True)
        labels = _listed(text) if path.suffix == ".json" else tuple(line.strip() for line in text.splitlines())
        "".join(labels).encode()  # JSON may name what is no UTF-8, which no answer could have in it
    except RecursionError as error:
        raise UnfitValue(name, "a file that can be read: it is JSON that is nested too deeply") from error
    except (OSError, ValueError) as error:
        raise UnfitValue(name, f"a file that can be read: {why_not_read(error)}") from error
    if not labels:
        raise UnfitValue(name, "a file with a label for each class: it is empty")
    return labels


def _listed(text: str) -> tuple[str, ...]:
    found: object = json.loads(text)
    items = cast("list[object]", found) if isinstance(found, list) else [None]
    if not all(isinstance(item, str) for item in items):
        raise ValueError("it is JSON, and no list of texts")
    return tuple(str(item) for item in items)
