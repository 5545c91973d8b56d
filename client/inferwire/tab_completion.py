"""Tab completion: which members `dir` lists of the objects and modules that programs use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, ClassVar


class TabCompleted:
    """Leaves out of `dir` what is public only for the client's own modules, which each class lists in `_own_use`."""

    __slots__ = ()

    _own_use: ClassVar[frozenset[str]] = frozenset()

    def __dir__(self) -> list[str]:
        own: set[str] = {name for kind in type(self).__mro__ for name in vars(kind).get("_own_use", ())}
        return [name for name in super().__dir__() if name not in own]


def offered(module: Mapping[str, Any]) -> Callable[[], list[str]]:
    """Make a module's `__dir__`: what it defines, properties among it, and the modules below that have one too."""

    def is_of_use(value: Any) -> bool:
        if isinstance(value, ModuleType):
            return value.__name__.startswith(f"{module['__name__']}.") and "__dir__" in vars(value)
        return isinstance(value, str) or getattr(value, "__module__", "") == module["__name__"]

    return lambda: [name for name, value in module.items() if not name.startswith("_") and is_of_use(value)]
