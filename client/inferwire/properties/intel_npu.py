"""Properties of NPUs. Mirrors `openvino.properties.intel_npu`."""

from inferwire.properties.declaration import Property, flag, int64, one_of, text
from inferwire.tab_completion import offered
from inferwire.values.enumerations import OrderedChoice


class CompilerType(OrderedChoice):
    """Which compiler makes the blob. Mirrors openvino's enumeration of this name."""

    PLUGIN = 0
    DRIVER = 1
    PREFER_PLUGIN = 2


bypass_umd_caching = Property("NPU_BYPASS_UMD_CACHING", flag)
compilation_mode_params = Property("NPU_COMPILATION_MODE_PARAMS", text)
compiler_dynamic_quantization = Property("NPU_COMPILER_DYNAMIC_QUANTIZATION", flag)
compiler_type = Property("NPU_COMPILER_TYPE", one_of(CompilerType))
compiler_version = Property("NPU_COMPILER_VERSION")
defer_weights_load = Property("NPU_DEFER_WEIGHTS_LOAD", flag)
device_alloc_mem_size = Property("NPU_DEVICE_ALLOC_MEM_SIZE")
device_total_mem_size = Property("NPU_DEVICE_TOTAL_MEM_SIZE")
disable_idle_memory_prunning = Property("NPU_DISABLE_IDLE_MEMORY_PRUNING", flag)
driver_version = Property("NPU_DRIVER_VERSION")
enable_strides_for = Property("NPU_ENABLE_STRIDES_FOR", text)
max_tiles = Property("NPU_MAX_TILES")
platform = Property("NPU_PLATFORM", text)
qdq_optimization = Property("NPU_QDQ_OPTIMIZATION", flag)
qdq_optimization_aggressive = Property("NPU_QDQ_OPTIMIZATION_AGGRESSIVE", flag)
run_inferences_sequentially = Property("NPU_RUN_INFERENCES_SEQUENTIALLY", flag)
tiles = Property("NPU_TILES", int64)
turbo = Property("NPU_TURBO", flag)

__dir__ = offered(globals())
