"""Properties of the AUTO device. Mirrors `openvino.properties.intel_auto`."""

from inferwire.properties.declaration import (
    Property,
    curve,
    either,
    flag,
    mapping_of,
    one_of,
    text,
    uint32,
)
from inferwire.tab_completion import offered
from inferwire.values.enumerations import OrderedChoice


class SchedulePolicy(OrderedChoice):
    """Which device takes the next inference. Mirrors openvino's enumeration of this name."""

    ROUND_ROBIN = 0
    DEVICE_PRIORITY = 1
    DEFAULT = 1


device_bind_buffer = Property("DEVICE_BIND_BUFFER", flag)
devices_utilization_threshold = Property("DEVICES_UTILIZATION_THRESHOLD", mapping_of(uint32))
enable_runtime_fallback = Property("ENABLE_RUNTIME_FALLBACK", flag)
enable_startup_fallback = Property("ENABLE_STARTUP_FALLBACK", flag)
low_power_device = Property("LOW_POWER_DEVICE", text)
perf_curve_table = Property("PERF_CURVE_TABLE", either(text, mapping_of(curve)))
schedule_policy = Property("SCHEDULE_POLICY", one_of(SchedulePolicy))

__dir__ = offered(globals())
