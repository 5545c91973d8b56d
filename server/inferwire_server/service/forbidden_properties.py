"""Which properties of OpenVINO callers may not set, though they may set others."""

from __future__ import annotations

from collections.abc import Iterator

from inferwire_proto.errors import Code
from inferwire_proto.properties import EnumValue, Properties, PropertyValue
from inferwire_server.errors import ServingError

FORBIDDEN_PROPERTIES = (
    "CACHE_DIR",
    "CACHE_PATH",
    "CACHE_MODEL_PATH",
    "WEIGHTS_PATH",
    "LOOKUP_TABLE_PATH",
    "CONFIG_FILE",
    "NPUW_DUMP",
    "NPUW_ONLINE_DUMP_PLAN",
    "LOG_LEVEL",
    "CACHE_ENCRYPTION_CALLBACKS",
    "FORCE_TBB_TERMINATE",
    "ENABLE_CPU_RESERVATION",
)
"""Properties that name files of the server, or change more than the caller's own model.

A longer name with one of these in it is forbidden too: NPUW_CACHE_DIR is the cache of one device.
"""


def refuse_forbidden(properties: Properties) -> None:
    """Refuse properties that are for the server's operator to set.

    Raises:
        ServingError: PERMISSION_DENIED.
    """
    for name in _forbidden(properties):
        raise ServingError(Code.PERMISSION_DENIED, f"property {name} is for the server's operator to set")


def _forbidden(value: PropertyValue | Properties) -> Iterator[str]:
    """Find forbidden names in properties and in the properties of single devices within them."""
    if isinstance(value, EnumValue):
        # OpenVINO gets its name, as if it had come as text.
        value = value.name
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _forbidden(name)
            yield from _forbidden(inner)
    elif isinstance(value, list | tuple | set):
        for inner in value:
            yield from _forbidden(inner)
    elif isinstance(value, str):
        # OpenVINO takes the properties of single devices as text as well.
        yield from (name for name in FORBIDDEN_PROPERTIES if name in value)
