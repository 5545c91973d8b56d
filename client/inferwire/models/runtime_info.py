"""What a model's file says of it beside its graph, with openvino's overloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferwire.arguments import incompatible, is_list
from inferwire.models.model_files import ModelFiles
from inferwire.models.rt_info import RuntimeMap, found_at, read_rt_info, set_at
from inferwire.values.ov_any import OVAny


class RuntimeInfo:
    """The part of a model that gives its runtime information. Mirrors that of `openvino.Model`."""

    _files: ModelFiles
    _rt_info: RuntimeMap | None = None

    @property
    def rt_info(self) -> RuntimeMap:
        """What the model's file says of itself, by name: an `OVAny` each, or a map of what is below."""
        if self._rt_info is None:
            self._rt_info = read_rt_info(self._files)
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
        found = found_at(self.rt_info, _path("get_rt_info", self, path))
        if found is None:
            raise RuntimeError("Cannot get runtime attribute. Path to runtime attribute is incorrect.")
        if isinstance(found, OVAny):
            return found
        return OVAny(found.plain() if isinstance(found, RuntimeMap) else found)

    def has_rt_info(self, path: str | Sequence[str]) -> bool:
        """Tell whether a name or a path of names leads somewhere. Mirrors `openvino.Model.has_rt_info`."""
        return found_at(self.rt_info, _path("has_rt_info", self, path)) is not None

    def set_rt_info(self, obj: object, path: str | Sequence[str]) -> None:
        """Put a value where a name or a path of names leads; it stays on this side.

        Mirrors `openvino.Model.set_rt_info`.
        """
        set_at(self.rt_info, _path("set_rt_info", self, path), obj)


def _path(function: str, owner: object, path: object) -> str | list[str]:
    if isinstance(path, str) or (is_list(path) and path and all(isinstance(name, str) for name in path)):
        return path
    signatures = ("(self: Model, path: list[str])", "(self: Model, path: str)")
    raise incompatible(function, *signatures, invoked=(owner, path))
