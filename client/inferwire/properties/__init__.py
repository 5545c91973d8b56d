"""Properties of devices and compiled models. Mirrors `openvino.properties`."""

from inferwire.properties import device as device
from inferwire.properties import hint as hint
from inferwire.properties import intel_auto as intel_auto
from inferwire.properties import intel_cpu as intel_cpu
from inferwire.properties import intel_gpu as intel_gpu
from inferwire.properties import intel_npu as intel_npu
from inferwire.properties import log as log
from inferwire.properties import streams as streams
from inferwire.properties.declaration import (
    Property,
    element_type,
    flag,
    int32,
    one_of,
    text,
    uint32,
    uint64,
)
from inferwire.properties.streams import stream_count
from inferwire.tab_completion import offered
from inferwire.values.enumerations import OrderedChoice


class CacheMode(OrderedChoice):
    """What a cached blob is made for. Mirrors openvino's enumeration of this name."""

    OPTIMIZE_SIZE = 0
    OPTIMIZE_SPEED = 1


class CompatibilityCheck(OrderedChoice):
    """Whether a blob fits a device. Mirrors openvino's enumeration of this name."""

    NOT_APPLICABLE = 0
    SUPPORTED = 1
    UNSUPPORTED = 2


class WorkloadType(OrderedChoice):
    """How much of a device a model may take. Mirrors openvino's enumeration of this name."""

    DEFAULT = 0
    EFFICIENT = 1


auto_batch_timeout = Property("AUTO_BATCH_TIMEOUT", uint32)
available_devices = Property("AVAILABLE_DEVICES")
cache_dir = Property("CACHE_DIR", text)
cache_mode = Property("CACHE_MODE", one_of(CacheMode))
compatibility_check = Property("COMPATIBILITY_CHECK")
compilation_num_threads = Property("COMPILATION_NUM_THREADS", int32)
enable_mmap = Property("ENABLE_MMAP", flag)
enable_profiling = Property("PERF_COUNT", flag)
enable_weightless = Property("ENABLE_WEIGHTLESS", flag)
execution_devices = Property("EXECUTION_DEVICES")
force_tbb_terminate = Property("FORCE_TBB_TERMINATE", flag)
inference_num_threads = Property("INFERENCE_NUM_THREADS", int32)
key_cache_group_size = Property("KEY_CACHE_GROUP_SIZE", uint64)
key_cache_precision = Property("KEY_CACHE_PRECISION", element_type)
loaded_from_cache = Property("LOADED_FROM_CACHE")
max_batch_size = Property("MAX_BATCH_SIZE")
model_name = Property("NETWORK_NAME")
num_streams = Property("NUM_STREAMS", stream_count)
optimal_batch_size = Property("OPTIMAL_BATCH_SIZE")
optimal_number_of_infer_requests = Property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
range_for_async_infer_requests = Property("RANGE_FOR_ASYNC_INFER_REQUESTS")
range_for_streams = Property("RANGE_FOR_STREAMS")
runtime_requirements = Property("RUNTIME_REQUIREMENTS")
supported_properties = Property("SUPPORTED_PROPERTIES")
value_cache_group_size = Property("VALUE_CACHE_GROUP_SIZE", uint64)
value_cache_precision = Property("VALUE_CACHE_PRECISION", element_type)
weights_path = Property("WEIGHTS_PATH", text)
workload_type = Property("WORKLOAD_TYPE", one_of(WorkloadType))

__dir__ = offered(globals())
