"""How many streams a device runs. Mirrors `openvino.properties.streams`."""

from __future__ import annotations

from typing import ClassVar, SupportsIndex, cast

from inferwire.arguments import Unpicklable, as_integer, incompatible, openvino_class
from inferwire.properties.declaration import Property, either, int32
from inferwire.tab_completion import offered


class Num(Unpicklable):
    """A number of streams. Mirrors `openvino.properties.streams.Num`."""

    __slots__ = ("__weakref__", "_count")

    AUTO: ClassVar[Num]
    NUMA: ClassVar[Num]

    def __init__(self, num_streams: SupportsIndex = -1) -> None:
        count = as_integer(num_streams)
        if count is None:
            raise incompatible("__init__", "Num(num_streams: int)", invoked=(num_streams,))
        self._count = count

    def to_integer(self) -> int:
        """Give the number: -1 for as many as the device chooses, -2 for one per NUMA node."""
        return self._count


Num.AUTO = Num(-1)
Num.NUMA = Num(-2)


def stream_count(value: object) -> int:
    """Take a `Num`, ours or openvino's."""
    if not (isinstance(value, Num) or openvino_class(value) == "Num"):
        raise TypeError
    return cast("Num", value).to_integer()


num = Property("NUM_STREAMS", either(stream_count, int32))

__dir__ = offered(globals())
