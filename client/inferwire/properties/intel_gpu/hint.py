"""What an application wants of a GPU. Mirrors `openvino.properties.intel_gpu.hint`."""

from inferwire.properties.declaration import Property, flag, int64, one_of
from inferwire.properties.hint import Priority
from inferwire.tab_completion import offered


class ThrottleLevel:
    """How eagerly the driver polls; its levels are those of `Priority`."""

    LOW = Priority.LOW
    MEDIUM = Priority.MEDIUM
    HIGH = Priority.HIGH
    DEFAULT = Priority.DEFAULT


available_device_mem = Property("AVAILABLE_DEVICE_MEM_SIZE", int64)
enable_large_allocations = Property("GPU_ENABLE_LARGE_ALLOCATIONS", flag)
enable_lora_operation = Property("GPU_ENABLE_LORA_OPERATION", flag)
host_task_priority = Property("GPU_HOST_TASK_PRIORITY", one_of(Priority))
queue_priority = Property("GPU_QUEUE_PRIORITY", one_of(Priority))
queue_throttle = Property("GPU_QUEUE_THROTTLE", one_of(Priority))

__dir__ = offered(globals())
