"""Properties of GPUs. Mirrors `openvino.properties.intel_gpu`."""

from inferwire.properties.declaration import Property, flag
from inferwire.properties.intel_gpu import hint as hint
from inferwire.tab_completion import offered


class CapabilityGPU:
    """What a GPU can do, as strings. Mirrors `openvino.properties.intel_gpu.CapabilityGPU`."""

    HW_MATMUL = "GPU_HW_MATMUL"
    USM_MEMORY = "GPU_USM_MEMORY"


class MemoryType:
    """What memory a tensor lies in. Mirrors `openvino.properties.intel_gpu.MemoryType`."""

    surface = "GPU_SURFACE"
    buffer = "GPU_BUFFER"


device_max_alloc_mem_size = Property("GPU_DEVICE_MAX_ALLOC_MEM_SIZE")
device_total_mem_size = Property("GPU_DEVICE_TOTAL_MEM_SIZE")
disable_winograd_convolution = Property("GPU_DISABLE_WINOGRAD_CONVOLUTION", flag)
enable_loop_unrolling = Property("GPU_ENABLE_LOOP_UNROLLING", flag)
execution_units_count = Property("GPU_EXECUTION_UNITS_COUNT")
memory_statistics = Property("GPU_MEMORY_STATISTICS")
uarch_version = Property("GPU_UARCH_VERSION")

__dir__ = offered(globals())
