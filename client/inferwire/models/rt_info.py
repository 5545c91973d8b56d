"""What a model file says of itself beside its graph: OpenVINO's runtime information.

Reads it from the file's content, on this side: IR and ONNX have it, the other formats do not. Knows no server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from xml.etree import ElementTree

from inferwire.arguments import incompatible, is_list
from inferwire.models.model_files import ModelFiles
from inferwire.models.onnx_files import read_metadata
from inferwire.transport.executions import WireBytes
from inferwire.values.ov_any import OVAny

_NO_SUCH_PATH = "Cannot get runtime attribute. Path to runtime attribute is incorrect."


class RuntimeMap(dict[str, Any]):
    """Runtime information by name: an `OVAny` each, or a map of what is below. Mirrors `openvino.RTMap`.

    The names come in their order, and not in that in which they were set.

    Differs from OpenVINO: it is a dict, and takes values of all types.
    """

    def __setitem__(self, name: str, value: object) -> None:
        is_in_order = name in self or not self or next(reversed(self)) < name
        later = [] if is_in_order else [each for each in self if each > name]
        super().__setitem__(name, _held(value))
        for each in later:
            super().__setitem__(each, self.pop(each))

    def plain(self) -> dict[str, Any]:
        """Give the values themselves, at every depth."""
        return {name: each.plain() if isinstance(each, RuntimeMap) else each.value for name, each in self.items()}

    def clone(self) -> RuntimeMap:
        """Give a map of the same values, at every depth; what is put into one of them is not in the other."""
        return type(self)(
            {name: each.clone() if isinstance(each, RuntimeMap) else OVAny(each.value) for name, each in self.items()}
        )

    def at(self, path: str | Sequence[str]) -> Any:
        """Follow a path of names; None if it leads nowhere."""
        found: object = self
        for name in [path] if isinstance(path, str) else path:
            below = found.value if isinstance(found, OVAny) else found
            found = cast("dict[str, Any]", below).get(name) if isinstance(below, dict) else None
        return found

    def put(self, path: str | Sequence[str], value: object) -> None:
        """Put a value where a path of names leads, which need not exist before.

        Raises:
            RuntimeError: If it leads through another value.
        """
        *above, last = [path] if isinstance(path, str) else path
        info = self
        for name in above:
            below = info.get(name)
            if isinstance(below, OVAny) and below.value is not None:
                raise RuntimeError(_NO_SUCH_PATH)
            if not isinstance(below, RuntimeMap):
                info[name] = {}
                below = info[name]
            info = below
        info[last] = value


class ModelMap(RuntimeMap):
    """The runtime information of a model: as in openvino, looking for a name that is not there puts None under it."""

    def __missing__(self, name: str) -> OVAny:
        self[name] = None
        return self[name]


class RuntimeInfo:
    """The part of a model that gives its runtime information. Mirrors that of `openvino.Model`."""

    _files: ModelFiles
    _rt_info: RuntimeMap | None = None

    @property
    def rt_info(self) -> RuntimeMap:
        """What the model's file says of itself, by name: an `OVAny` each, or a map of what is below.

        Mirrors `openvino.Model.rt_info`.
        """
        if self._rt_info is None:
            self._rt_info = ModelMap(_read(self._files))
        return self._rt_info

    def get_rt_info(self, path: str | Sequence[str] | None = None) -> Any:
        """Give what the model's file says of itself: all of it, or what a name or a path of names leads to.

        Mirrors `openvino.Model.get_rt_info`. IR and ONNX files have such information, read on this side.

        Raises:
            TypeError: For what is no path.
            RuntimeError: For one that leads nowhere.
        """
        if path is None:
            return self.rt_info
        found = self.rt_info.at(_path("get_rt_info", self, path))
        if found is None:
            raise RuntimeError(_NO_SUCH_PATH)
        if isinstance(found, OVAny):
            return found
        return OVAny(found.plain() if isinstance(found, RuntimeMap) else found)

    def has_rt_info(self, path: str | Sequence[str]) -> bool:
        """Tell whether a name or a path of names leads somewhere. Mirrors `openvino.Model.has_rt_info`."""
        return self.rt_info.at(_path("has_rt_info", self, path)) is not None

    def set_rt_info(self, obj: object, path: str | Sequence[str]) -> None:
        """Put a value where a name or a path of names leads; it stays on this side.

        Mirrors `openvino.Model.set_rt_info`.

        Args:
            obj: The value; a dict becomes a map of its own.
            path: The name, or those from the outermost map to the value.

        Raises:
            TypeError: For what is no path.
            RuntimeError: For one that leads through another value.
        """
        self.rt_info.put(_path("set_rt_info", self, path), obj)


def _path(function: str, owner: object, path: object) -> str | list[str]:
    if isinstance(path, str) or (is_list(path) and path and all(isinstance(name, str) for name in path)):
        return path
    signatures = ("(self: Model, path: list[str])", "(self: Model, path: str)")
    raise incompatible(function, *signatures, invoked=(owner, path))


def _read(files: ModelFiles) -> RuntimeMap:
    """Give what a file says."""
    match files.suffix:
        case ".xml":
            return _map_of(_of_ir(bytes(files.model.content)))
        case ".onnx":
            return _map_of(_of_onnx(files.model.content))
        case _:
            return RuntimeMap()


def _held(value: object) -> RuntimeMap | OVAny:
    """Give the form in which a map holds a value: for a dict, a map of its own."""
    if isinstance(value, RuntimeMap):
        return value
    if isinstance(value, dict):
        return _map_of(cast("dict[str, object]", value))
    return value if isinstance(value, OVAny) else OVAny(value)


def _map_of(values: dict[str, object]) -> RuntimeMap:
    made = RuntimeMap()
    for name in sorted(values):
        made[name] = values[name]
    return made


def _of_ir(content: bytes) -> dict[str, object]:
    root = ElementTree.fromstring(content)  # noqa: S314 - a file that its user loads
    info = root.find("rt_info")
    version = root.get("version", "")
    given = {} if info is None else _below(info)
    return given | ({"version": int(version)} if version.isdigit() else {})


def _below(element: ElementTree.Element) -> dict[str, object]:
    # A name that XML does not allow as a tag is in an attribute.
    return {
        child.get("name", child.tag): child.get("value") if "value" in child.keys() else _below(child)  # noqa: SIM118
        for child in element
    }


def _of_onnx(content: WireBytes) -> dict[str, object]:
    texts = read_metadata(content)
    return {"framework": dict(texts)} if texts else {}
