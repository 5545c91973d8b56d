"""How much the runtime logs. Mirrors `openvino.properties.log`."""

from inferwire.properties.declaration import Property, one_of
from inferwire.tab_completion import offered
from inferwire.values.enumerations import OrderedChoice


class Level(OrderedChoice):
    """How much is logged. Mirrors openvino's enumeration of this name."""

    NO = -1
    ERR = 0
    WARNING = 1
    INFO = 2
    DEBUG = 3
    TRACE = 4


level = Property("LOG_LEVEL", one_of(Level))

__dir__ = offered(globals())
