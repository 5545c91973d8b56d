"""What completion offers of the objects that programs hold."""

from __future__ import annotations

from typing import ClassVar


class Completed:
    """Leaves out of `dir` what is public for the client's own modules alone, which each class names in `_own_use`."""

    __slots__ = ()

    _own_use: ClassVar[frozenset[str]] = frozenset()

    def __dir__(self) -> list[str]:
        own: set[str] = {name for kind in type(self).__mro__ for name in vars(kind).get("_own_use", ())}
        return [name for name in super().__dir__() if name not in own]
