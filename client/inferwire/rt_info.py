"""What a model file says of itself beside its graph: OpenVINO's runtime information.

Reads it from the file's content, on this side: IR and ONNX have it, the other formats do not. Knows no server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from xml.etree import ElementTree

from inferwire.model_files import ModelFiles
from inferwire.onnx_files import read_metadata
from inferwire.ov_any import OVAny
from inferwire.transport.executions import WireBytes


def read_rt_info(files: ModelFiles) -> dict[str, Any]:
    """Give what a file says, by name: an `OVAny` each, or a dict of what is below."""
    match files.suffix:
        case ".xml":
            return _of_ir(bytes(files.model.content))
        case ".onnx":
            return _of_onnx(files.model.content)
        case _:
            return {}


def found_at(info: dict[str, Any], path: str | Sequence[str]) -> Any:
    """Follow a path of names; None where it leads nowhere."""
    found: object = info
    for name in [path] if isinstance(path, str) else path:
        below = found.value if isinstance(found, OVAny) else found
        found = cast("dict[str, Any]", below).get(name) if isinstance(below, dict) else None
    return found


def set_at(info: dict[str, Any], path: str | Sequence[str], value: object) -> None:
    """Put a value where a path of names leads, which need not exist before."""
    names = [path] if isinstance(path, str) else path
    for name in names[:-1]:
        below = info.get(name)
        if not isinstance(below, dict):
            below = info[name] = dict[str, Any]()
        info = cast("dict[str, Any]", below)
    info[names[-1]] = value if isinstance(value, dict | OVAny) else OVAny(value)


def _of_ir(content: bytes) -> dict[str, Any]:
    root = ElementTree.fromstring(content)  # noqa: S314 - a file that its user loads
    info = root.find("rt_info")
    version = root.get("version", "")
    given = {} if info is None else _below(info)
    return given | ({"version": OVAny(int(version))} if version.isdigit() else {})


def _below(element: ElementTree.Element) -> dict[str, Any]:
    # A name that XML does not allow as a tag stands in an attribute.
    return {
        child.get("name", child.tag): OVAny(child.get("value")) if "value" in child.keys() else _below(child)  # noqa: SIM118
        for child in element
    }


def _of_onnx(content: WireBytes) -> dict[str, Any]:
    texts = read_metadata(content)
    return {"framework": {key: OVAny(text) for key, text in texts.items()}} if texts else {}
