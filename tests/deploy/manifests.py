"""The files of `deploy/`, as they are and with their optional lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def with_optional_lines(text: str) -> str:
    """Uncomment the lines that begin with # and no space."""
    return re.sub(r"^( *)#(?=\S)", r"\1", text, flags=re.MULTILINE)


def read(name: str, *, optional: bool = False) -> list[Any]:
    """Read the documents of a file."""
    text = (DEPLOY / name).read_text()
    return list(yaml.safe_load_all(with_optional_lines(text) if optional else text))


def kubernetes(kind: str, *, optional: bool = False) -> Any:
    """Give the cluster's object of a kind."""
    (found,) = (each for each in read("kubernetes.yaml", optional=optional) if each["kind"] == kind)
    return found
